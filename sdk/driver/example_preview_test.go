package driver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// tickets closes tickets of a help desk: for a challenge of the type mcp that
// asks for the tool close_ticket it makes the request itself.
type tickets struct{ url string }

type closing struct {
	Ticket int `json:"ticket"`
}

// Preview reads what the step asks for and says what would be done.
func (tickets) Preview(_ context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	var asked struct {
		Tool      string  `json:"tool_name"`
		Arguments closing `json:"arguments"`
	}
	_ = json.Unmarshal(req.Input.Display, &asked) // what is not a ticket stays 0
	if asked.Tool != "close_ticket" || asked.Arguments.Ticket <= 0 {
		return driver.CannotPreview("this driver closes tickets, and the step does not name one"), nil
	}
	data, err := json.Marshal(asked.Arguments)
	return driver.Planned(driver.Plan{
		Text: fmt.Sprintf("Close ticket %d", asked.Arguments.Ticket), Data: data, Effect: driver.EffectChanges,
	}), err
}

// Render does what was planned, once for each idempotency key: the help desk
// recognises a key that it has seen.
func (t tickets) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/closed", strings.NewReader(string(req.Plan)))
	if err != nil {
		return driver.RenderResult{}, err
	}
	call.Header.Set("Idempotency-Key", req.IdempotencyKey)
	reply, err := http.DefaultClient.Do(call)
	if err != nil {
		return driver.RenderUnknown("the help desk did not reply: " + err.Error()), nil
	}
	defer reply.Body.Close()
	value, err := json.Marshal(map[string]any{
		"tool_name": "close_ticket", "arguments": req.Plan, "result": req.Plan, "success": reply.StatusCode == http.StatusOK})
	return driver.RenderResult{Answer: &driver.Answer{
		InputID: req.Input.ID, Value: value, Provenance: driver.ServerObserved,
	}}, err
}

// Interpret is never called: Render asks nobody.
func (tickets) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("this driver asks nobody"), nil
}

func ExamplePreviewer() {
	ctx := context.Background()
	closed := map[string]string{} // what was closed, by idempotency key
	desk := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var c closing
		_ = json.NewDecoder(r.Body).Decode(&c)
		closed[r.Header.Get("Idempotency-Key")] = fmt.Sprint("ticket ", c.Ticket)
	}))
	defer desk.Close()

	d := tickets{url: desk.URL}
	input := driver.Input{ID: "evidence", Kind: driver.KindEvidence, Type: "mcp",
		Display: json.RawMessage(`{"tool_name":"close_ticket","arguments":{"ticket":42}}`)}
	preview, _ := d.Preview(ctx, driver.PreviewRequest{Input: input})
	fmt.Println(preview.Plan.Text)

	order := driver.RenderRequest{Input: input, Plan: preview.Plan.Data, IdempotencyKey: "k1", Attempt: 1}
	first, _ := d.Render(ctx, order)
	second, _ := d.Render(ctx, order) // the reply to the first was lost
	fmt.Println(string(first.Answer.Value))
	fmt.Println(string(second.Answer.Value) == string(first.Answer.Value), closed)
	// Output:
	// Close ticket 42
	// {"arguments":{"ticket":42},"result":{"ticket":42},"success":true,"tool_name":"close_ticket"}
	// true map[k1:ticket 42]
}
