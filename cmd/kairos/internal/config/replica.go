package config

import (
	"errors"
	"fmt"
	"net/url"
)

// replicaConfig is about servers that share a database behind one proxy.
type replicaConfig struct {
	// Address is where the other replicas reach this one, such as
	// http://10.0.0.5:3300. Empty: this server is not a replica.
	Address string `yaml:"address"`
}

func (c Config) replicaProblems() []error {
	address := c.Replica.Address
	if address == "" {
		return nil
	}
	var errs []error
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		errs = append(errs, fmt.Errorf("replica.address is %q: must be scheme, host and port, such as http://10.0.0.5:3300", address))
	}
	if !c.Database.Postgres() {
		errs = append(errs, errors.New("replica.address is set, but replicas share a PostgreSQL database: set database to postgres://USER:PASSWORD@HOST/NAME, or remove replica.address"))
	}
	return errs
}
