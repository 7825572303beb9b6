package driverrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

var (
	namePattern    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	versionPattern = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	handlePattern  = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)

	knownNeeds = []string{
		driver.NeedElicitation, driver.NeedElicitationForm, driver.NeedElicitationURL, driver.NeedSampling, driver.NeedRoots, driver.NeedApprovalPage,
	}
)

// CheckDescriptor reports everything that is wrong with a descriptor, or nil.
func CheckDescriptor(d driver.Descriptor) error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !namePattern.MatchString(d.Name) {
		complain("name %q does not match %s", d.Name, namePattern)
	}
	if !versionPattern.MatchString(d.Version) {
		complain("version %q is not a semantic version such as 1.2.3", d.Version)
	}
	if _, ok := roles[d.Role]; !ok {
		complain("role %q is not %q or %q", d.Role, driver.RoleChallenge, driver.RoleCapability)
	}
	if _, ok := effects[d.Effect]; !ok {
		complain("effect %q is not %q, %q or %q", d.Effect, driver.EffectPure, driver.EffectReads, driver.EffectChanges)
	}
	if _, ok := approvals[d.Approval]; !ok {
		complain("approval %q is not empty, %q or %q", d.Approval, driver.ApprovalAuto, driver.ApprovalUser)
	}
	if _, ok := transports[d.Transport]; !ok {
		complain("transport %q is not empty (gRPC) or %q", d.Transport, driver.TransportExec)
	}
	if d.Effect == driver.EffectChanges && d.Has(driver.FeatureAgent) {
		complain("feature %q does not go with effect %q: the driver is called whenever a challenge is shown, and must not act then", driver.FeatureAgent, d.Effect)
	}
	if d.Has(driver.FeaturePreview) && (d.Role != driver.RoleCapability || d.Effect == driver.EffectPure || d.Has(driver.FeatureAgent) || d.Has(driver.FeatureHuman)) {
		complain("feature %q is for capability drivers that look or act themselves: not for role %q, effect %q, nor with the features %q and %q",
			driver.FeaturePreview, driver.RoleChallenge, driver.EffectPure, driver.FeatureAgent, driver.FeatureHuman)
	}
	if len(d.Handles) == 0 {
		complain("handles is empty: the driver serves nothing")
	}
	for i, h := range d.Handles {
		if !handlePattern.MatchString(h) || slices.Contains(d.Handles[:i], h) {
			complain("handles: %q is repeated or does not match %s", h, handlePattern)
		}
	}
	for i, v := range d.StateVersions {
		if v < 1 || (i > 0 && v <= d.StateVersions[i-1]) {
			complain("state_versions %v is not a rising list of positive numbers", d.StateVersions)
			break
		}
	}
	for _, n := range d.Needs {
		switch {
		case strings.HasPrefix(n, "/"):
			if err := driver.CheckPointer(n); err != nil {
				complain("needs: %w", err)
			}
		case !slices.Contains(knownNeeds, n):
			complain("needs: %q is not one of %s, nor a pointer such as /experimental/acme~1confirm", n, strings.Join(knownNeeds, ", "))
		}
	}
	return errors.Join(append(errs, checkAnswersBy(d), checkSends(d), checkSchemas(d))...)
}

// maxSchema bounds each schema of a descriptor, in bytes.
const maxSchema = 64 << 10

func checkSchemas(d driver.Descriptor) error {
	var errs []error
	schemas := d.Schemas()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		switch trimmed := bytes.TrimSpace(*schemas[name]); {
		case len(trimmed) == 0:
		case len(trimmed) > maxSchema:
			errs = append(errs, fmt.Errorf("%s has %d bytes, at most %d are read", name, len(trimmed), maxSchema))
		case !json.Valid(trimmed) || trimmed[0] != '{':
			errs = append(errs, fmt.Errorf("%s is not a JSON object", name))
		case (name == "params_schema" || name == "output_schema") && d.Role != driver.RoleChallenge:
			errs = append(errs, fmt.Errorf("%s is for drivers of role %q: a capability has no challenge", name, driver.RoleChallenge))
		}
	}
	return errors.Join(append(errs, checkActionSchema(d.ActionSchema))...)
}

// checkActionSchema reports a schema of actions from which no member can be read.
func checkActionSchema(schema json.RawMessage) error {
	if len(bytes.TrimSpace(schema)) == 0 {
		return nil
	}
	if _, err := driver.ActionMembers(schema); err != nil {
		return fmt.Errorf("action_schema %w", err)
	}
	return nil
}

// maxAnswersBy bounds Descriptor.AnswersBy.
const maxAnswersBy = 8

// waysOfLogin are words that the host keeps for people who log in.
var waysOfLogin = []string{"login"}

// checkAnswersBy checks the ways in which approvals are answered, and that no driver says
// that somebody else answers than the one who does.
func checkAnswersBy(d driver.Descriptor) error {
	if handles := d.Role == driver.RoleCapability && slices.Contains(d.Handles, driver.KindApproval); handles != (len(d.AnswersBy) > 0) {
		return fmt.Errorf("answers_by: a driver names ways if, and only if, it is of role %q and handles %q", driver.RoleCapability, driver.KindApproval)
	}
	if len(d.AnswersBy) > maxAnswersBy {
		return fmt.Errorf("answers_by: there are %d ways, at most %d are read", len(d.AnswersBy), maxAnswersBy)
	}
	var errs []error
	for i, way := range d.AnswersBy {
		feature, ok := map[string]string{driver.ByReview: driver.FeatureClientReview, driver.ByAgent: driver.FeatureAgent}[way]
		if !ok {
			feature = driver.FeatureHuman
		}
		switch {
		case !namePattern.MatchString(way) || slices.Contains(d.AnswersBy[:i], way):
			errs = append(errs, fmt.Errorf("answers_by: %.80q is repeated or does not match %s", way, namePattern))
		case slices.Contains(waysOfLogin, way):
			errs = append(errs, fmt.Errorf("answers_by: %q is kept for the host", way))
		case !d.Has(feature):
			errs = append(errs, fmt.Errorf("answers_by: %q needs the feature %q", way, feature))
		case d.Has(driver.FeatureAgent) && way != driver.ByAgent:
			errs = append(errs, fmt.Errorf("answers_by: a driver with the feature %q answers by %q alone, not by %q", driver.FeatureAgent, driver.ByAgent, way))
		}
	}
	return errors.Join(errs...)
}

// maxSends bounds Descriptor.Sends.
const maxSends = 16

func checkSends(d driver.Descriptor) error {
	switch {
	case len(d.Sends) > 0 && d.Role == driver.RoleChallenge:
		return fmt.Errorf("sends: a driver of role %q asks the client nothing: name the methods in the capability driver", d.Role)
	case len(d.Sends) > maxSends:
		return fmt.Errorf("sends: there are %d methods, at most %d are read", len(d.Sends), maxSends)
	}
	var errs []error
	for i, m := range d.Sends {
		if err := m.Check(); err != nil {
			errs = append(errs, fmt.Errorf("sends: %w", err))
		}
		if slices.ContainsFunc(d.Sends[:i], func(o driver.ClientMethod) bool { return o.Method == m.Method }) {
			errs = append(errs, fmt.Errorf("sends: method %.80q is there twice", m.Method))
		}
	}
	return errors.Join(errs...)
}

// CheckDriver reports what is wrong with a driver before it is served: its
// descriptor, or a role that does not match what is implemented.
func CheckDriver(d driver.Driver) error {
	err := CheckDescriptor(d.Descriptor)
	if (d.Descriptor.Role == driver.RoleChallenge) != (d.Challenge != nil) {
		err = errors.Join(err, fmt.Errorf("role is %q but Challenge set is %t", d.Descriptor.Role, d.Challenge != nil))
	}
	if (d.Descriptor.Role == driver.RoleCapability) != (d.Capability != nil) {
		err = errors.Join(err, fmt.Errorf("role is %q but Capability set is %t", d.Descriptor.Role, d.Capability != nil))
	}
	if _, previews := d.Capability.(driver.Previewer); previews != d.Descriptor.Has(driver.FeaturePreview) {
		err = errors.Join(err, fmt.Errorf("a driver has the feature %q if, and only if, it implements Preview", driver.FeaturePreview))
	}
	return err
}
