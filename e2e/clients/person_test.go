package clients_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// person opens each link to the approval page that the model has read, once, and answers.
type person struct {
	takes  time.Duration     // to read a page
	fields map[string]string // what is entered, by field; "" is for fields that are not named

	mu      sync.Mutex // guards the fields below
	opened  map[string]bool
	did     []string
	pending sync.WaitGroup
}

func newPerson(takes time.Duration, fields map[string]string) *person {
	return &person{takes: takes, fields: fields, opened: make(map[string]bool)}
}

var links = regexp.MustCompile(`https?://[^"\\\s]+/approve/[0-9a-f-]+/[0-9a-f-]+`)

// read is what the model read.
func (p *person) read(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, link := range links.FindAllString(text, -1) {
		if p.opened[link] {
			continue
		}
		p.opened[link] = true
		p.pending.Add(1)
		go func() {
			defer p.pending.Done()
			time.Sleep(p.takes)
			err := p.answer(link)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.did = append(p.did, fmt.Sprintf("person at %s: %v", link, err))
		}()
	}
}

// diary is what the person did.
func (p *person) diary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.did, "\n")
}

var (
	inputs    = regexp.MustCompile(`<(?:input|select|textarea)[^>]*>`)
	attribute = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

func (p *person) answer(link string) error {
	res, err := http.Get(link)
	if err != nil {
		return err
	}
	page, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("the page answers %s: %w", res.Status, err)
	}
	form := url.Values{"decision": {"approved"}}
	if strings.Contains(string(page), `value="answered"`) { // it is a question, not an approval
		form.Set("decision", "answered")
	}
	for _, in := range inputs.FindAllString(string(page), -1) {
		is := make(map[string]string)
		for _, a := range attribute.FindAllStringSubmatch(in, -1) {
			is[a[1]] = html.UnescapeString(a[2])
		}
		switch entered, known := p.fields[strings.TrimPrefix(is["name"], "field.")]; {
		case known:
			form.Set(is["name"], entered)
		case is["type"] == "hidden":
			form.Set(is["name"], is["value"])
		}
	}
	res, err = http.PostForm(link, form)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("sent %s, the page answers %s: %s\n%s", form, res.Status, cut(string(answer)), page)
	}
	return err
}
