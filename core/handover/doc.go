// Package handover keeps a small file that names the run that advanced last, so that
// its person or the next client can resume it. The file is a pointer without secrets:
// the database decides where the run stands and who may resume it.
package handover
