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
		"login":                   {`"approval":{"how":["login"]}`, "/approval/how", "people cannot log in to this build"},
		"by":                      {`"approval":{"by":["group:release"]}`, "/approval/by", "people cannot log in to this build"},
		"not":                     {`"approval":{"not":"runner"}`, "/approval/not", "people cannot log in to this build"},
		"quorum":                  {`"approval":{"quorum":2}`, "/approval/quorum", "people cannot log in to this build"},
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
