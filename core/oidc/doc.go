// Package oidc checks the tokens that an identity provider has issued to programs (OpenID
// Connect): whether they count here, and whose they are. It logs nobody in and decides about
// nobody's rights.
package oidc
