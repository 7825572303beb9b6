package drivers

import (
	"cmp"
	"errors"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ask"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// grant is what a driver may do once it is installed.
type grant struct {
	name, from, to string // versions; from is empty for a new driver
	rows           []grantRow
}

// grantRow is one thing that is granted; was is empty for a new driver.
type grantRow struct{ what, was, is string }

// grantsOf lists what the staged drivers may do. A driver that is installed
// already, byte for byte, gets nothing new.
func grantsOf(c config.Config, old driverhost.Lock, staged []stagedDriver) []grant {
	var out []grant
	for _, s := range staged {
		was, installed := EntryOf(old, s.entry.Name)
		sum, before := s.entry.SHA256[driverhost.Platform()], was.SHA256[driverhost.Platform()]
		if installed && before == sum && reflect.DeepEqual(was.Descriptor, s.entry.Descriptor) {
			continue
		}
		settings := c.Drivers.Settings[s.entry.Name]
		g := grant{name: s.entry.Name, from: was.Version, to: s.entry.Version, rows: granted(settings, s.entry.Descriptor, sum)}
		if installed {
			for i, row := range granted(settings, was.Descriptor, before) {
				g.rows[i].was = row.is
			}
		}
		out = append(out, g)
	}
	return out
}

// granted is what a driver with this descriptor may do under these settings.
func granted(s config.DriverSettings, d driver.Descriptor, sum string) []grantRow {
	effect := string(d.Effect)
	switch {
	case d.Effect == driver.EffectEffects && d.Has(driver.FeatureGrant):
		effect += " (only what a person allows)"
	case d.Effect == driver.EffectEffects && !s.AllowEffects:
		effect += " (refused until drivers.settings." + d.Name + ".allow_effects is set)"
	}
	limits := s.Limits()
	return []grantRow{
		{what: "role", is: string(d.Role) + ", handles " + strings.Join(d.Handles, ", ")},
		{what: "effect", is: effect},
		{what: "features", is: cmp.Or(strings.Join(d.Features, ", "), "none")},
		{what: "sends", is: cmp.Or(strings.Join(d.Methods(), ", "), "nothing to clients")},
		{what: "vouches", is: vouchesText(vouches(d, limits), d.Has(driver.FeatureHuman) && limits.NoPerson)},
		{what: "network", is: cmp.Or(s.Network, string(driverhost.NetworkAllow))},
		{what: "environment", is: cmp.Or(strings.Join(s.EnvFrom, ", "), "no variables")},
		{what: "binary", is: output.ShortSum(sum)},
	}
}

func (g grant) text(p *output.Printer) {
	if g.from == "" {
		p.Printf("%s %s is new:\n", g.name, g.to)
	} else {
		p.Printf("%s %s replaces %s:\n", g.name, g.to, g.from)
	}
	for _, row := range g.rows {
		if row.was != "" && row.was != row.is {
			printRow(p, row.what, row.was+" -> "+row.is)
			continue
		}
		printRow(p, row.what, row.is)
	}
}

// approveGrants shows what is granted and has the operator agree.
func approveGrants(cmd *cobra.Command, grants []grant, yes bool) error {
	if len(grants) == 0 {
		return nil
	}
	p := &output.Printer{W: cmd.ErrOrStderr()}
	for _, g := range grants {
		g.text(p)
	}
	if p.Err != nil || yes {
		return p.Err
	}
	ok, err := ask.Agreed(cmd, p, "install?")
	if err == nil && !ok {
		err = errors.New("nothing was installed")
	}
	return err
}
