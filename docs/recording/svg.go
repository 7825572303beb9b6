package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

const (
	cell, line, margin = 8.4, 18, 14 // pixels
	foreground         = "#d4d4d4"
	background         = "#1e1e1e"
)

// colours are those of the eight that terminals have.
var colours = [8]string{"#808080", "#f14c4c", "#23d18b", "#e5e510", "#3b8eea", "#d670d6", "#29b8db", "#e5e5e5"}

// frame is a screen with its colours, and how many seconds it is shown.
type frame struct {
	screen  string
	seconds float64
}

// draw shows the frames one after the other. The last one stays when the
// animation has ended, and is all that viewers without animation show.
func draw(frames []frame) string {
	total := 0.0
	for _, f := range frames {
		total += f.seconds
	}
	w, h := width*cell+2*margin, float64(height*line+2*margin)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">`+"\n", w, h)
	b.WriteString("<title>A protocol is played in a terminal: each step is shown, done and proved before the next one</title>\n<style>\n")
	fmt.Fprintf(&b, "text { fill: %s; white-space: pre }\n.bold { font-weight: bold }\n.faint { opacity: .6 }\n", foreground)
	at := 0.0
	for i, f := range frames[:len(frames)-1] {
		begin, end := 100*at/total, 100*(at+f.seconds)/total
		fmt.Fprintf(&b, "#f%d { animation: f%d %.1fs step-end 1 both }\n@keyframes f%d { 0%% { visibility: hidden } %.2f%% { visibility: visible } %.2f%%, 100%% { visibility: hidden } }\n", i, i, total, i, begin, end)
		at += f.seconds
	}
	last := len(frames) - 1
	fmt.Fprintf(&b, "#f%d { animation: f%d %.1fs step-end 1 both }\n@keyframes f%d { 0%% { visibility: hidden } %.2f%%, 100%% { visibility: visible } }\n", last, last, total, last, 100*at/total)
	b.WriteString("@media (prefers-reduced-motion: reduce) { g { animation: none !important; visibility: hidden }")
	fmt.Fprintf(&b, " #f%d { visibility: visible } }\n</style>\n", last)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	for i, f := range frames {
		fmt.Fprintf(&b, "<g id=\"f%d\">\n", i)
		drawScreen(&b, f.screen)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// attributes is a sequence that changes how the following text looks.
var attributes = regexp.MustCompile("\x1b\\[([0-9;]*)m")

func drawScreen(b *strings.Builder, screen string) {
	var s style
	for row, text := range strings.Split(strings.TrimRight(screen, "\n"), "\n") {
		column := 0
		for text != "" {
			at := attributes.FindStringSubmatchIndex(text)
			plain := text
			if at != nil {
				plain = text[:at[0]]
			}
			if strings.TrimSpace(plain) != "" {
				fmt.Fprintf(b, `<text x="%.1f" y="%d"%s>%s</text>`+"\n", margin+float64(column)*cell, margin+(row+1)*line-4, s, html.EscapeString(strings.TrimRight(plain, " ")))
			}
			if at == nil {
				break
			}
			column += len([]rune(plain))
			s = s.after(text[at[2]:at[3]])
			text = text[at[1]:]
		}
	}
}

// style is how text looks.
type style struct {
	bold, faint bool
	colour      string // empty: that of the terminal
}

// after is the style that a sequence of numbers leads to; colours beyond the
// eight are left as they are.
func (s style) after(numbers string) style {
	if strings.HasPrefix(numbers, "38;") || strings.HasPrefix(numbers, "48;") {
		return s
	}
	for n := range strings.SplitSeq(numbers, ";") {
		switch {
		case n == "" || n == "0":
			s = style{}
		case n == "1":
			s.bold = true
		case n == "2":
			s.faint = true
		case n == "22":
			s.bold, s.faint = false, false
		case n == "39":
			s.colour = ""
		case len(n) == 2 && (n[0] == '3' || n[0] == '9') && n[1] <= '7':
			s.colour = colours[n[1]-'0']
		}
	}
	return s
}

// String is the style as attributes of SVG.
func (s style) String() string {
	out := ""
	switch {
	case s.bold:
		out += ` class="bold"`
	case s.faint:
		out += ` class="faint"`
	}
	if s.colour != "" {
		out += fmt.Sprintf(` style="fill: %s"`, s.colour)
	}
	return out
}
