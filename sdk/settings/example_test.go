package settings_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/sdk/settings"
)

type config struct {
	URL     string        `json:"url" required:"true" doc:"where the service answers"`
	Timeout time.Duration `json:"timeout" default:"10s" min:"1s" max:"5m" doc:"how long to wait for it"`
	Token   string        `json:"token" secret:"true" doc:"sent as bearer token"`
}

// A bad configuration is never an error: each thing that is wrong is told with
// its place, so that the operator can fix all of them at once.
func ExampleOf_Read() {
	s := settings.New[config]()
	_, found := s.Read(json.RawMessage(`{"timeout": "1h", "tokn": "x"}`))
	for _, d := range found {
		fmt.Println(d.Pointer, d.Message)
	}
	read, _ := s.Read(json.RawMessage(`{"url": "https://example.com"}`))
	fmt.Println(read.Timeout)
	// Output:
	// /url is missing
	// /timeout must be at most 5m
	// /tokn unknown key "tokn"; did you mean "token"?
	// 10s
}

func ExampleOf_Markdown() {
	fmt.Print(settings.New[config]().Markdown())
	// Output:
	// | key | type | default | meaning |
	// |---|---|---|---|
	// | `url` | string | required | where the service answers |
	// | `timeout` | duration, 1s to 5m | `10s` | how long to wait for it |
	// | `token` | string | none | sent as bearer token (secret) |
}

func ExampleOf_Schema() {
	fmt.Println(string(settings.New[struct {
		Level string `json:"level" default:"warn" enum:"warn,error" doc:"least level to report"`
		Limit int    `json:"limit" min:"1" doc:"most findings to tell"`
	}]().Schema()))
	// Output: {"type":"object","properties":{"level":{"type":"string","description":"least level to report","default":"warn","enum":["warn","error"]},"limit":{"type":"integer","description":"most findings to tell","minimum":1}},"additionalProperties":false}
}
