package search

import "strings"

// common are stop words and polite phrases in English, German, French, Spanish and
// Polish, folded. A word is listed once, under the first language that has it.
var common = set(`
	a able actually after afterwards again all almost along already also although always am amongst an and
	another any anybody anymore anyone anything anyway anyways apparently are around as ask asked asks at away
	basically be because been before began begin being believe best better both but by came can cannot cant come
	comes coming could couldnt currently did didnt do does doesnt doing done dont each either else especially ever
	every everybody everyone everything exactly few finally for from get gets getting give given gives glad goes
	going gonna got guys had has have havent having he hello help helping helps her here hereby hers hey hi him his
	honestly hope how however i if im immediately in indeed instead into is isnt it its itself just kindly know
	known let lets like likes little look looking looks lots made make makes making many maybe me mean meanwhile
	might mine more moreover most much must my myself nearly need needed needing needs neither never no nobody nor
	not nothing now obviously of often oh ok okay on once one ones only or other others otherwise our ours ourselves
	out over own perhaps please possible possibly pretty probably properly put quite rather really recently said
	same say says see seem seems shall she should shouldnt show simply since so some somebody somehow someone
	something sometimes somewhat somewhere soon sorry still such sure tell than thank thanks that thats the their
	them themselves then there therefore these they thing things think this those though through till to today told
	tomorrow tonight too toward towards tried tries try trying unless until up upon us using usually very via wanna
	want wanted wanting wants was way we were what whatever whats when whenever where wherever whether which while
	who whom whose why will wish with within without wondering wont would wouldnt yes yesterday yet you your yours
	yourself

	ab aber alle allem allen aller alles als ander andere anderen auch auf aus bei beim bereits bin bis bist bitte
	brauche brauchen braucht da dabei dafur daher damit danach danke dann daran darauf darf das dass davon dazu dein
	deine dem den denn der deren des deshalb dessen dich die dies diese diesem diesen dieser dieses dir doch dort
	dringend du durch durfen eigentlich ein eine einem einen einer eines einfach einmal endlich er erst es etwas
	euch euer eure fur ganz geben gerade gern gerne gestern gibt ging guten habe haben hallo hast hat hatte hatten
	helfen heute hier hilf hilfe hin ich ihm ihn ihnen ihr ihre ihrem ihren ihrer immer ins irgendwie ist ja jede
	jedem jeden jeder jedes jemand jetzt kann kannst kein keine keinen keiner konnen konnte konnten konntest mal man
	manchmal mehr mein meine meinem meinen meiner mich mir mit mochte mochten morgen muss mussen musste nach nachste
	nachsten nachster nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit selbst
	sich sie sind sobald solche soll sollen sollte sollten sondern sonst uber um unbedingt und uns unser unsere
	unserem unseren unserer unter viel viele vielleicht vom von vor wann waren warum weil welche welchen welcher
	welches wem wen wenn wer werde werden wie wieder wieso wir wird wirklich wo wohl wollen worauf wurde wurden
	zeige zeigen zu zuerst zum zur zwischen

	afin aide aider aidez ainsi alors au aucun aujourd aurais aussi autre autres aux avant avec avez avoir avons
	beaucoup besoin bien bonjour car ce ceci cela celle celui ces cet cette ceux chaque chez comme dans de demain
	depuis dois doit doivent donc elle elles en encore est et etaient etait ete etre eu faire fait faudrait faut
	font hui ici il ils j je jusqu la le les leur leurs lui ma mais meme merci mes moi mon ne ni nos notre nous ont
	ou par parce pas peu peut peux plait plus pour pourquoi pourriez pouvez puis quand que quel quelle quelles quels
	qui quoi sa sans se sera ses si sommes son sont souhaite souhaitons sur svp ta te tes toi ton tous tout toute
	toutes tres tu un une va vais veut veux vos votre voudrais voulons vous y

	al algo alguien algun alguna ante antes aqui asi aun ayer ayudame ayudar buenas buenos cada como con cual cuando
	cuanto debe debemos deben debo del desde despues dime donde durante e el ella ellas ellos entonces entre eran
	esa ese eso esos esta estaba estamos estan estar estas este esto estos estoy favor fue gracias ha habia hace
	hacer hago han hasta hay haya hemos hola hoy igual las lo los luego manana mas mi mis misma mismo mucho muy nada
	necesita necesitamos necesito nosotros nuestra nuestras nuestro nuestros o os otra otras otro otros para pero
	poco podemos podria podrias por porque puede pueden puedes puedo pues queremos querria quien quiere quiero
	quisiera segun ser sido siempre sin soy su sus tambien tan tanto tenemos tener tengo ti tiene tienen toda todas
	todo todos tus una unas uno unos usted vamos voy ya yo

	aby albo ale ani az bardzo bede bedzie bez bo bowiem byc byl byla bylo byly chce chcemy chcialabym chcialbym
	choc ci co cos czego czesc czy czyli dac dla dlaczego dlatego dziekuje dzis dzisiaj gdy gdyby gdzie ile inne
	inny innych jak jaka jaki jakie jakis jako jednak jego jej jemu jesli jest jestem jestesmy jeszcze jezeli jutro
	juz kazdy kiedy kim kto ktora ktore ktorego ktorej ktory ktorych ktorzy ktos lub maja mam mamy miec miedzy mna
	mnie moge moim moj moja moje moze mozemy mozna mu musi musimy musze na nad nam nami nas nasz nasza nasze naszego
	naszej naszych nawet nich nie niech niego niej nim nimi niz obok od ona oni ono oraz po pomoc pomocy pomoz
	poniewaz potem potrzebuje potrzebujemy powiedz powinien powinna powinnismy poza prosic prosze przed przez przy
	skoro swoj swoje tak taki takie tam tego tej temu ten tez tobie trzeba tutaj twoj ty tych tylko tym u w wam wasz
	wczoraj wedlug wiec witam wszyscy wszystkich wszystkie wszystko wy z za zaden zanim zawsze ze zeby
`)

func set(words string) map[string]bool {
	s := map[string]bool{}
	for _, w := range strings.Fields(words) {
		s[w] = true
	}
	return s
}
