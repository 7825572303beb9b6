package protocol_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestNearMissesOfApproval(t *testing.T) {
	for name, tc := range map[string]struct{ keys, pointer, says string }{
		"null":                    {`"approval":null`, "/approval", `must be an object such as {}`},
		"true":                    {`"approval":true`, "/approval", "approval must be an object"},
		"the word of the mode":    {`"approval":"user"`, "/approval", "approval must be an object"},
		"how as one word":         {`"approval":{"how":"form"}`, "/approval/how", "approval.how must be a list"},
		"no way at all":           {`"approval":{"how":[]}`, "/approval/how", "is an empty list"},
		"how is null":             {`"approval":{"how":null}`, "/approval/how", "is an empty list"},
		"an empty word":           {`"approval":{"how":[""]}`, "/approval/how", "not the name of a way"},
		"a value chooses the way": {`"approval":{"how":["{{ input.way }}"]}`, "/approval/how", "without templates"},
		"a way twice":             {`"approval":{"how":["form","form"]}`, "/approval/how", `has "form" twice`},
		"no people":               {`"approval":{"by":[]}`, "/approval/by", "is an empty list"},
		"people are null":         {`"approval":{"by":null}`, "/approval/by", "is an empty list"},
		"one group as text":       {`"approval":{"by":"group:release"}`, "/approval/by", "approval.by must be a list"},
		"a name alone":            {`"approval":{"by":["ada"]}`, "/approval/by", "neither a person, such as user:acme:ada, nor a group"},
		"a person without realm":  {`"approval":{"by":["user:ada"]}`, "/approval/by", "neither a person"},
		"a space":                 {`"approval":{"by":["space:release"]}`, "/approval/by", "neither a person"},
		"another case of group":   {`"approval":{"by":["Group:release"]}`, "/approval/by", "neither a person"},
		"a group twice":           {`"approval":{"by":["group:a","group:a"]}`, "/approval/by", `has "group:a" twice`},
		"a value chooses who":     {`"approval":{"by":["group:{{input.who}}"]}`, "/approval/by", "must not have templates"},
		"runners":                 {`"approval":{"not":"runners"}`, "/approval/not", `must be "runner"`},
		"not as a list":           {`"approval":{"not":["runner"]}`, "/approval/not", "approval.not must be"},
		"not is null":             {`"approval":{"not":null}`, "/approval/not", `must be "runner"`},
		"nobody":                  {`"approval":{"quorum":0}`, "/approval/quorum", "from 1 to 10"},
		"fewer than nobody":       {`"approval":{"quorum":-1}`, "/approval/quorum", "from 1 to 10"},
		"too many people":         {`"approval":{"quorum":11}`, "/approval/quorum", "from 1 to 10"},
		"half a person":           {`"approval":{"quorum":2.5}`, "/approval/quorum", "approval.quorum must be"},
		"a number as text":        {`"approval":{"quorum":"2"}`, "/approval/quorum", "approval.quorum must be"},
		"a quorum of null":        {`"approval":{"quorum":null}`, "/approval/quorum", "from 1 to 10"},
		"people by form":          {`"approval":{"quorum":2,"how":["form"]}`, "/approval/how", "count people, who are known by their login: add login"},
		"a misspelt by":           {`"approval":{"qorum":2}`, "/approval/qorum", `did you mean "quorum"?`},
		"a misspelt phrase":       {`"approval":{"prase":"go"}`, "/approval/prase", `did you mean "phrase"?`},
		"another case":            {`"approval":{"Phrase":"go"}`, "/approval/Phrase", `did you mean "phrase"?`},
		"the phrase is true":      {`"approval":{"phrase":true}`, "/approval/phrase", "approval.phrase must be"},
		"an empty phrase":         {`"approval":{"phrase":""}`, "/approval/phrase", "must have 1 to 100 characters"},
		"auto beside an approval": {`"approval_mode":"auto","approval":{}`, "/approval", `contradicts approval_mode "auto"`},
		"an empty mode":           {`"approval_mode":""`, "/approval_mode", `must be "auto" or "user"`},
		"the mode is null":        {`"approval_mode":null`, "/approval_mode", `must be "auto" or "user"`},
		"evidence of nobody":      {`"evidence":null`, "/evidence", `must be "anyone", "person" or "server"`},
		"evidence of a list":      {`"evidence":["server"]`, "/evidence", "evidence must be a string"},
		"another case of server":  {`"evidence":"Server"`, "/evidence", `must be "anyone", "person" or "server"`},
	} {
		_, found := protocol.Parse([]byte("# P\n\n## S\n\n```json\n{\"challenge\":{\"type\":\"x\"," + tc.keys + "}}\n```\n"))
		said := false
		for _, d := range found {
			said = said || d.Severity == driver.SeverityError && d.Pointer == tc.pointer && strings.Contains(d.Message, tc.says)
		}
		if !said {
			t.Errorf("%s: %s is answered with %v, want an error at %s that says %q", name, tc.keys, found, tc.pointer, tc.says)
		}
	}
}

func TestAnApprovalMeansThatAPersonApproves(t *testing.T) {
	for challenge, want := range map[string]driver.ApprovalMode{
		`{"approval":{}}`:                               driver.ApprovalUser,
		`{"approval":{"phrase":"go"}}`:                  driver.ApprovalUser,
		`{"approval":{"how":["form"]}}`:                 driver.ApprovalUser,
		`{"approval_mode":"user","approval":{}}`:        driver.ApprovalUser,
		`{"approval_mode":"auto"}`:                      driver.ApprovalAuto,
		`{"approval_mode":"user","evidence":"person"}`:  driver.ApprovalUser,
		`{"type":"x","evidence":"server","files":null}`: "",
	} {
		c, err := protocol.CommonOf([]byte(challenge))
		if err != nil || c.ApprovalMode != want {
			t.Errorf("CommonOf(%s) has the mode %q (%v), want %q", challenge, c.ApprovalMode, err, want)
		}
	}
}
