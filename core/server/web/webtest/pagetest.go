// Package webtest shows our web pages to a real browser, so that tests can say
// how they look: Chromium without a window, spoken to over a pipe. It knows
// nothing of what the pages show.
package webtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"testing"
	"time"
)

// patience bounds everything that a browser is waited for.
const patience = 60 * time.Second

// names under which systems install Chromium.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// Browser is a Chromium with one open page. It is used by one goroutine.
type Browser struct {
	t       testing.TB
	send    *os.File
	receive *os.File
	in      *bufio.Reader
	last    int    // number of the last command
	session string // of the open page
}

// Open starts a browser that ends with the test. Without Chromium the test is
// skipped and says so; where CI is set, it fails instead.
func Open(t testing.TB) *Browser {
	t.Helper()
	program := find()
	if program == "" {
		const missing = "CHROMIUM IS MISSING, so nobody looks at this page: install the package chromium"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	b := start(t, program)
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.call("Page.enable", nil, nil)
	return b
}

func find() string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// start runs Chromium, which reads commands from its file 3 and writes to file 4.
func start(t testing.TB, program string) *Browser {
	t.Helper()
	commands, send, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	receive, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// It shows only our own pages, and its sandbox does not work for root.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--hide-scrollbars", "--disable-background-networking", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe")
	cmd.ExtraFiles = []*os.File{commands, answers}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	b := &Browser{t: t, send: send, receive: receive, in: bufio.NewReaderSize(receive, 1<<20)}
	t.Cleanup(func() {
		b.session = ""
		_, _ = b.write("Browser.close", nil) // it ends anyway when the pipe does
		late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		err := errors.Join(send.Close(), commands.Close(), answers.Close(), cmd.Wait(), receive.Close())
		if !late.Stop() {
			t.Logf("end Chromium: %v", err)
		}
	})
	return b
}

func (b *Browser) write(method string, params any) (id int, err error) {
	b.last++
	command := map[string]any{"id": b.last, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	raw, err := json.Marshal(command)
	if err != nil {
		return 0, err
	}
	_, err = b.send.Write(append(raw, 0))
	return b.last, err
}

// message is an answer or an event.
type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (b *Browser) read() message {
	b.t.Helper()
	if err := b.receive.SetReadDeadline(time.Now().Add(patience)); err != nil {
		b.t.Fatal(err)
	}
	raw, err := b.in.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("wait for Chromium: %v", err)
	}
	var m message
	if err := json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &m); err != nil {
		b.t.Fatalf("Chromium wrote %.200s: %v", raw, err)
	}
	return m
}

// call gives a command and waits for its answer.
func (b *Browser) call(method string, params, into any) {
	b.t.Helper()
	id, err := b.write(method, params)
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		m := b.read()
		switch {
		case m.ID != id:
		case m.Error != nil:
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		case into == nil:
			return
		default:
			if err := json.Unmarshal(m.Result, into); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
			return
		}
	}
}

// Scheme is the colour scheme that a person prefers.
type Scheme string

// The schemes.
const (
	Light Scheme = "light"
	Dark  Scheme = "dark"
)

// Show opens a page in a window of this width, in CSS pixels, and waits until
// it is loaded.
func (b *Browser) Show(url string, width int, scheme Scheme) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": string(scheme)}},
	}, nil)
	if _, err := b.write("Page.navigate", map[string]any{"url": url}); err != nil {
		b.t.Fatal(err)
	}
	for b.read().Method != "Page.loadEventFired" {
	}
}

// Ask evaluates a JavaScript expression in the page.
func (b *Browser) Ask(expression string, into any) {
	b.t.Helper()
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &out)
	if out.Exception != nil {
		b.t.Fatalf("%s: %s", expression, out.Exception.Exception.Description)
	}
	if err := json.Unmarshal(out.Result.Value, into); err != nil {
		b.t.Fatalf("%s is %s: %v", expression, out.Result.Value, err)
	}
}

// Picture is the whole page, one pixel of it a CSS pixel.
func (b *Browser) Picture() image.Image {
	b.t.Helper()
	var size struct {
		Content struct{ Width, Height float64 } `json:"cssContentSize"`
	}
	b.call("Page.getLayoutMetrics", nil, &size)
	var shot struct {
		Data []byte `json:"data"`
	}
	b.call("Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": size.Content.Width, "height": size.Content.Height, "scale": 1},
	}, &shot)
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		b.t.Fatalf("read the screenshot: %v", err)
	}
	return picture
}

// Overflowing lists elements that reach beyond the right edge of the window,
// as "tag.class at 412"; those inside something that scrolls do not.
func (b *Browser) Overflowing() []string {
	b.t.Helper()
	var out []string
	b.Ask(`(() => {
		const scrolls = e => { for (; e; e = e.parentElement) if (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX)) return true; return false };
		const out = [];
		if (document.documentElement.scrollWidth > innerWidth) out.push("the page is " + document.documentElement.scrollWidth + " wide");
		for (const e of document.body.querySelectorAll("*")) {
			const right = Math.floor(e.getBoundingClientRect().right);
			if (right > innerWidth && !scrolls(e.parentElement)) out.push(e.tagName.toLowerCase() + "." + e.getAttribute("class") + " at " + right);
		}
		return out;
	})()`, &out)
	return out
}

// Colour of a CSS variable of the page, as the picture has it.
func (b *Browser) Colour(variable string) string {
	b.t.Helper()
	var hex string
	b.Ask(fmt.Sprintf(`getComputedStyle(document.documentElement).getPropertyValue(%q).trim()`, variable), &hex)
	return hex
}

// At is the colour of a pixel, as CSS writes it: #1f5fd0.
func At(p image.Image, x, y int) string {
	r, g, b, _ := p.At(x, y).RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

// Colours counts how many different ones a picture has; a blank page has one.
func Colours(p image.Image) int {
	seen := map[string]bool{}
	for y := p.Bounds().Min.Y; y < p.Bounds().Max.Y; y += 3 {
		for x := p.Bounds().Min.X; x < p.Bounds().Max.X; x += 3 {
			seen[At(p, x, y)] = true
		}
	}
	return len(seen)
}
