package sqlite

import (
	sqldriver "database/sql/driver"
	"fmt"
	"sync"

	driver "modernc.org/sqlite"

	"github.com/kairos-mcp/kairos/core/store/pack"
)

// RegisterFunctions adds the SQL functions of this package to all connections that
// are opened later in this process, so that updates of the schema, and tests, can
// read and write what is packed: pack_save(json), pack_protocol(json), unpack(packed).
func RegisterFunctions() error { return registered() }

var registered = sync.OnceValue(func() error {
	for name, function := range map[string]func([]byte) (sqldriver.Value, error){
		"pack_save":     func(document []byte) (sqldriver.Value, error) { return pack.Pack(pack.Save, document), nil },
		"pack_protocol": func(document []byte) (sqldriver.Value, error) { return pack.Pack(pack.Protocol, document), nil },
		"unpack": func(packed []byte) (sqldriver.Value, error) {
			document, err := pack.Unpack(packed)
			return string(document), err
		},
	} {
		err := driver.RegisterDeterministicScalarFunction(name, 1, func(_ *driver.FunctionContext, args []sqldriver.Value) (sqldriver.Value, error) {
			switch arg := args[0].(type) {
			case nil:
				return nil, nil
			case string:
				return function([]byte(arg))
			case []byte:
				return function(arg)
			}
			return nil, fmt.Errorf("%s(%v): the argument is neither text nor a blob", name, args[0])
		})
		if err != nil {
			return fmt.Errorf("add function %s to SQLite: %w", name, err)
		}
	}
	return nil
})
