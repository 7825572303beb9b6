package protocol_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// TestNearMissesOfTexts has what is almost right in headings, names and front matter:
// nothing of it passes in silence. A row whose said is empty must find nothing.
func TestNearMissesOfTexts(t *testing.T) {
	step := "\n\nx\n\n" + block(`{"type":"x"}`)
	named := func(name, template string) string {
		return "# T\n\n## A" + "\n\nx\n\n" + block(`{"type":"x","name":"`+name+`"}`) + "\n## B\n\nx\n\n" + block(`{"type":"x","x":{"a":"{{ steps.`+template+`.v }}"}}`)
	}
	headed := func(heading string) string { return "# T\n\n## " + heading + step }
	for _, row := range []struct{ name, doc, said string }{
		{"a word that begins with a number", headed("3-way merge"), `the label loses "3-"`},
		{"a dotted number", headed("1.1.2 Require a second factor"), `the label loses "1.1."`},
		{"a time", headed("12:30 stand-up"), `the label loses "12:"`},
		{"a date", headed("2026-01-31 cut-over"), `the label loses "2026-01-"`},
		{"an error code", headed("500 - internal server error"), `the label loses "500 -"`},
		{"a decimal number", headed("3.5 mm jack"), `the label loses "3."`},
		{"a day in German", headed("10. Oktober: Stichtag"), `the label loses "10."`},
		{"a version", headed("1.2.3 release"), `the label loses "1.2."`},
		{"a duration", headed("5-minute smoke test"), `the label loses "5-"`},
		{"a number of its step", headed("1. Prepare"), ""},
		{"Step and a number", headed("Step 12: Ship"), ""},
		{"a number without separator", headed("401 errors"), ""},
		{"a word with a digit", headed("3D printing"), ""},
		{"numbers that count up", "# T\n\n## 7. A" + step + "\n## 8. B" + step, ""},
		{"a name in capitals", named("Größe", "größe"), "must be lower-case letters of any language"},
		{"a name that begins with a digit", named("2größe", "a"), "not starting with a digit"},
		{"a name with a blank", named("größe prüfen", "a"), "must be lower-case letters"},
		{"a name with a hyphen", named("größe-prüfen", "a"), "must be lower-case letters"},
		{"a template in other letters", named("größe", "groesse"), ""},
		{"a template that was not composed", named("größe", "gro\u0308ße"), ""},
		{"a name that was not composed", named("gro\u0308ße", "größe"), ""},
		{"a template in Han", named("確認", "確認"), ""},
		{"a template that loses a letter", named("größe", "grosse"), `no step named "grosse"`},
		{"the former name of an umlaut", named("größe", "gr__e"), `no step named "gr__e"`},
		{"one name in two spellings", "# T\n\n## A\n\n" + block(`{"type":"x","name":"größe"}`) + "\n## B\n\n" + block(`{"type":"x","name":"groesse"}`), `is the name "größe" of another step in other letters`},
	} {
		t.Run(row.name, func(t *testing.T) {
			chains, found := protocol.Parse([]byte(row.doc))
			for _, c := range chains {
				found = append(found, protocol.CheckReferences(c)...)
			}
			var all []string
			for _, d := range found {
				all = append(all, d.String())
			}
			said := strings.Join(all, "\n")
			if row.said == "" && said != "" || !strings.Contains(said, row.said) {
				t.Errorf("found %q, want %q", said, row.said)
			}
		})
	}
}

func TestNamesKeepLettersOfEveryLanguage(t *testing.T) {
	for label, want := range map[string]string{
		"Größe prüfen": "groesse_pruefen", "GRO\u0308SSE": "groesse", "Überblick holen": "ueberblick_holen", "確認": "確認", "データの確認 2": "データの確認_2",
		"Vérifier l'état": "verifier_l_etat", "Œuvre": "oeuvre", "Sjekk nøkkelen på bånd": "sjekk_noekkelen_paa_baand", "Zażółć gęślą jaźń": "zazolc_gesla_jazn",
		"Ελέγξτε": "ελέγξτε", "Проверить ёлку": "проверить_ёлку", "जाँच करें": "जाँच_करें", "İstanbul": "istanbul", "ﬁle": "file", "Ｆｕｌｌ": "full",
		"Þórr": "thorr", "Tiếng Việt": "tieng_viet", "تحقق": "تحقق", "3-D": "_3_d", "🚀": "", "…": "",
	} {
		if got := protocol.Slug(label); got != want {
			t.Errorf("Slug(%q) = %q, want %q", label, got, want)
		}
	}
}

func TestANameOfAChallengeWinsOverThoseOfHeadings(t *testing.T) {
	c := parseOne(t, "# T\n\n## Größe\n\nx\n\n## B\n\n"+block(`{"type":"x","name":"größe"}`))
	if got := strings.Join(names(c), " "); got != "groesse_2 größe" {
		t.Errorf("names = %s", got)
	}
}
