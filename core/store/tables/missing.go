package tables

// Missing says what happens where the database does not exist: a SQLite file, or the tables
// in a database of PostgreSQL. Its zero value makes it, which nobody is told.
type Missing struct {
	// Refuse, unless nil, returns the error of calls, and nothing is made. A command that only
	// reads would otherwise answer a misspelt name with an empty database.
	Refuse func() error
	// Made, unless nil, is called once the database was made.
	Made func()
}

// Report says so if the database was made.
func (m Missing) Report(made bool) {
	if made && m.Made != nil {
		m.Made()
	}
}
