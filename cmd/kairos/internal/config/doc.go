// Package config turns the configuration file, the environment and the flags into
// one validated Config. It reports every problem at once, with its line.
package config
