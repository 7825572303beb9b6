// Package flags reads flags that several groups of commands have.
package flags

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Strict gives a command --strict, whose default is what strict is. Without it a
// reply is a success, whatever it reports, as scripts for the earlier server expect.
func Strict(cmd *cobra.Command, strict *bool) {
	cmd.Flags().BoolVar(strict, "strict", *strict, "exit with 1 also when the reply reports a failure")
}

// JSONObject reads the value of a flag.
func JSONObject(flag, value string) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	err := json.Unmarshal([]byte(value), &object)
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &other):
		return nil, fmt.Errorf("%s must be a JSON object, not %s %.80s", flag, other.Value, value)
	case err != nil:
		return nil, fmt.Errorf("%s must be a JSON object: %w", flag, err)
	case object == nil:
		return nil, fmt.Errorf("%s must be a JSON object, not null", flag)
	}
	return json.RawMessage(value), nil
}
