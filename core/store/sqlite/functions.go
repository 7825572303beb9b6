package sqlite

import (
	sqldriver "database/sql/driver"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	driver "modernc.org/sqlite"

	"github.com/kairos-mcp/kairos/core/store/pack"
)

// RegisterFunctions adds the SQL functions of this package to all connections that
// are opened later in this process. step_key(uuid) is how steps are stored, and
// step_uuid(key) the reverse. pack_protocol(json) and unpack(packed) let tests change
// what is packed.
func RegisterFunctions() error { return registered() }

var registered = sync.OnceValue(func() error {
	for name, function := range map[string]func(sqldriver.Value) (sqldriver.Value, error){
		"pack_protocol": ofBytes(func(document []byte) (sqldriver.Value, error) { return pack.Pack(pack.Protocol, document), nil }),
		"unpack": ofBytes(func(packed []byte) (sqldriver.Value, error) {
			document, err := pack.Unpack(packed)
			return string(document), err
		}),
		"step_key": func(uuid sqldriver.Value) (sqldriver.Value, error) {
			if text, ok := uuid.(string); ok {
				return stepKey(text), nil
			}
			return uuid, nil
		},
		"step_uuid": func(key sqldriver.Value) (sqldriver.Value, error) {
			if b, ok := key.([]byte); ok && len(b) == keySize {
				return stepUUID(b), nil
			}
			return key, nil
		},
	} {
		err := driver.RegisterDeterministicScalarFunction(name, 1, func(_ *driver.FunctionContext, args []sqldriver.Value) (sqldriver.Value, error) {
			value, err := function(args[0])
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return value, err
		})
		if err != nil {
			return fmt.Errorf("add function %s to SQLite: %w", name, err)
		}
	}
	return nil
})

// ofBytes is a function of text or a blob. NULL stays NULL.
func ofBytes(function func([]byte) (sqldriver.Value, error)) func(sqldriver.Value) (sqldriver.Value, error) {
	return func(arg sqldriver.Value) (sqldriver.Value, error) {
		switch arg := arg.(type) {
		case nil:
			return nil, nil
		case string:
			return function([]byte(arg))
		case []byte:
			return function(arg)
		}
		return nil, fmt.Errorf("the argument %v is neither text nor a blob", arg)
	}
}

// stepKey is the UUID of a step as it is stored: its 16 bytes, or the text if it is not a
// UUID in its usual form.
func stepKey(uuid string) any {
	if key, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", "")); err == nil && len(key) == keySize && stepUUID(key) == uuid {
		return key
	}
	return uuid
}

const keySize = 16

// stepUUID is the reverse of stepKey.
func stepUUID(key []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", key[:4], key[4:6], key[6:8], key[8:10], key[10:])
}
