package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Where the audit log may be written.
const (
	AuditOff    = "off"
	AuditFile   = "file"
	AuditStdout = "stdout"
	AuditSyslog = "syslog"
)

var auditTo = []string{AuditFile, AuditStdout, AuditSyslog, AuditOff}

// AuditConfig says where the audit log is written.
type AuditConfig struct {
	// To is one of the above. Default AuditFile where callers have to say who they are, where a
	// file is named or where auditing is required, else AuditOff.
	To string `yaml:"to"`
	// File is audit.jsonl beside the database, unless another is named.
	File string `yaml:"file"`
	// Keep is how many earlier files are kept. Default 10.
	Keep *int `yaml:"keep"`
	// Required: what cannot be audited is not done.
	Required bool `yaml:"required"`
}

// defaults are those of a server whose database is in or beside the folder.
func (c *AuditConfig) defaults(beside string, identified bool) {
	if c.To == "" && (identified || c.Required || c.File != "") {
		c.To = AuditFile
	}
	c.To = cmp.Or(c.To, AuditOff)
	if c.To == AuditFile {
		c.File = cmp.Or(c.File, filepath.Join(beside, "audit.jsonl"))
	}
	setDefault(&c.Keep, 10)
}

func (c AuditConfig) problems() []error {
	errs := notNegative("; 0 keeps none", map[string]int{"audit.keep": *c.Keep})
	switch {
	case !slices.Contains(auditTo, c.To):
		errs = append(errs, fmt.Errorf("audit.to is %q: must be %s", c.To, strings.Join(auditTo, ", ")))
	case c.To != AuditFile && c.File != "":
		errs = append(errs, fmt.Errorf("audit.file is set, but audit.to is %s: remove one of them", c.To))
	case c.To == AuditOff && c.Required:
		errs = append(errs, errors.New("audit.required is true, but audit.to is off: nothing that must be audited could be done"))
	}
	return errs
}
