package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAValueThatMayBeReadAsAnOptionIsWarnedOf(t *testing.T) {
	for command, want := range map[string][]string{
		"sh run.sh {{ input.test }}":                                {"input.test"},
		"go test ./... && sh run.sh '{{ input.test }}'":             {"input.test"},
		"sh run.sh \"{{steps.plan.test}}\"":                         {"steps.plan.test"},
		"rm -rf {{ input.a }} {{ input.b }}":                        {"input.a", "input.b"},
		"echo x/{{ input.a }} | xargs {{ input.b }}":                {"input.b"},
		"{{ input.program }} now":                                   {"input.program"},
		"TAG={{ input.a }} git tag {{ input.b }}":                   {"input.b"},
		"cat <in {{ input.a }}":                                     {"input.a"},
		"rm -rf -- {{ input.a }} {{ input.b }}":                     nil,
		"git log --grep={{ input.a }} ./{{ input.b }}":              nil,
		"printf '%s' {{ input.a }} > {{ input.b }}.md":              nil,
		"echo {{ input.a }}; [ {{ input.a }} = y ]":                 nil,
		"docker ps --format '{{.Names}}' {{ .Other }}":              nil,
		"test -f notes/{{ input.version }}.md":                      nil,
		"make VERSION={{ input.a }}":                                nil,
		"x='it is; here' sh -c \"cd 'a b' && ls\" -- {{ input.a }}": nil,
		"printf {{ input.a }}":                                      {"input.a"},
		"rm -- a\nrm {{ input.a }}":                                 {"input.a"},
		"export {{ input.a }}":                                      {"input.a"},
		"! rm {{ input.a }}; if {{ input.b }}; then ls; fi":         {"input.a", "input.b"},
		"rm {{ input.a }}\nif then fi\nls":                          {"input.a"},
		"for f in {{ input.a }}; do :; done":                        nil,
		`rm $'\x017\x01' $'\x01-1\x01'`:                             nil,
		"cat <<'E'\nrm {{ input.a }}\nE\n":                          nil,
	} {
		var got []string
		for _, d := range optionsInValues("/shell/cmd", command) {
			name, _, _ := strings.Cut(strings.TrimPrefix(d.Message, "{{ "), " }}")
			got = append(got, name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
}
