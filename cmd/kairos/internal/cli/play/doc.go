// Package play has the commands that execute protocols: run, begin, next and attest.
package play
