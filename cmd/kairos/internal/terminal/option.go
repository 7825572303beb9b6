package terminal

import (
	"slices"
	"strconv"
	"strings"
)

// option is one answer that a person can choose.
type option struct {
	word  string // names it, and is what a person types
	shown string // the word, or more than that
	value string // what is answered
}

func plainOption(word string) option { return option{word, word, word} }

// optionsOf are the answers to a field that is answered by a choice, and the index
// of the harmless one.
func optionsOf(fd field) (options []option, harmless int) {
	if fd.approves() {
		options = []option{
			{"approve", "approve", approved}, {"decline", "decline", typedDecline}, {"later", "later: the run stays open", typedCancel},
		}
		return options, 1
	}
	choices := fd.choices
	if fd.typ == "boolean" {
		choices = []choice{{true, "yes"}, {false, "no"}}
	}
	for i, c := range choices {
		options = append(options, plainOption(c.title))
		if said := fd.explained(); said != nil {
			options[i].shown = said[i]
		}
	}
	switch no := slices.IndexFunc(options, func(o option) bool { return slices.Contains(noWords, strings.ToLower(o.value)) }); {
	case fd.fallback != nil || !fd.required:
		harmless = len(options)
		options = append(options, option{"(left out)", "(leave it out)", ""})
	case no >= 0:
		harmless = no
	}
	if fd.grants() {
		return options, harmless // declining and closing the form mean the same as no
	}
	return append(options, option{"(declined)", "(decline to answer)", typedDecline}, option{"(later)", "(answer later)", typedCancel}), harmless
}

// explained are the choices with what each means, where the description says that
// of every one of them in order; nil: it does not.
func (fd field) explained() []string {
	said := strings.Split(fd.description, "; ")
	if len(said) != len(fd.choices) {
		return nil
	}
	for i, c := range fd.choices {
		if !strings.HasPrefix(said[i], c.title+": ") {
			return nil
		}
	}
	return said
}

// approves reports whether the field is the decision of an approval: it takes the
// words that approve and reject, and a rejection declines.
func (fd field) approves() bool {
	return len(fd.choices) == 2 && fd.choices[0].value == approved && fd.choices[1].value == rejected
}

// grants reports whether the field is the answer to the question what KAIROS may do
// itself. Anything but a clear permission declines there.
func (fd field) grants() bool {
	return fd.name == "allow" && len(fd.choicesAmong(noWords)) == 1
}

// meantAmong is the index of the option that was typed, by its number or the
// beginning of a word that means it; harmless: none was, or several.
func meantAmong(typed string, options []option, harmless int) int {
	if i, err := strconv.Atoi(typed); err == nil && i >= 1 && i <= len(options) {
		return i - 1
	}
	at := -1
	for i, o := range options {
		if typed == "" || !beginsWordFor(typed, strings.ToLower(o.word)) {
			continue
		}
		if at >= 0 {
			return harmless
		}
		at = i
	}
	if at < 0 {
		return harmless
	}
	return at
}

// beginsWordFor reports whether what was typed begins the option, or another word
// for the same.
func beginsWordFor(typed, option string) bool {
	begins := func(word string) bool { return strings.HasPrefix(word, typed) }
	return begins(option) || slices.ContainsFunc([][]string{yesWords, noWords}, func(words []string) bool {
		return slices.Contains(words, option) && slices.ContainsFunc(words, begins)
	})
}
