// Package director drives runs from begin to attest: it loads a run and its
// protocol, asks the decision tree for a route, calls drivers, lets package run
// decide what the outcome means, and saves once. It knows no transport, no
// database and no challenge type.
package director
