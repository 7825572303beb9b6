package search

import "strings"

// common are words that say little about what is meant, in English, German and
// Polish, folded.
var common = set(`
	a an and any are as at be been by can could did do does for from get give had has have how i if in into is it its
	just let like me my need no not of on or our out please shall should so some than that the their them then there
	these they this those to us up want was we were what when where which who why will with would you your

	aber alle als am auf aus bei bin bis das dass dem den der des die doch durch ein eine einem einen einer eines er es
	fur habe haben hat ich ihr im ist kann kein keine konnen man mein meine mich mir mit mochte muss nach nicht noch nur
	oder sein sich sie sind soll sollen uber um und uns unser unsere vom von vor was welche wenn wer werden wie will
	wir wird wo wurde zu zum zur

	aby albo ale bez bo by byc co czy dla do gdy gdzie i ich ile jak jaka jaki jakie jego jej jest jestem juz
	kiedy kto ktora ktore ktory lub ma mam mi mnie moge moj moja na nad nie niz o od oraz po pod prosze przed przez
	przy sa sie ta tak te tego ten to tu ty u w we z za ze
`)

func set(words string) map[string]bool {
	s := map[string]bool{}
	for _, w := range strings.Fields(words) {
		s[w] = true
	}
	return s
}
