package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

const (
	requests = "requests"
	answers  = "answers"
)

func requestFile(key string) string { return requests + "/" + key + ".json" }
func answerFile(key string) string  { return answers + "/" + key + ".json" }

// folder holds the requests and the answers. Links that lead out of it are not followed.
type folder struct{ *os.Root }

func open(path string) (folder, error) {
	if err := os.MkdirAll(path, 0o770); err != nil {
		return folder{}, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return folder{}, err
	}
	f := folder{root}
	for _, dir := range []string{requests, answers} {
		if err := f.MkdirAll(dir, 0o770); err != nil {
			return folder{}, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// ask writes the request file, unless it is there. A reader of the folder sees
// it whole or not at all.
func (f folder) ask(req driver.RenderRequest) error {
	name := requestFile(req.IdempotencyKey)
	if _, err := f.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	content, err := json.MarshalIndent(requestOf(req), "", "  ")
	if err != nil {
		return fmt.Errorf("the question cannot be written as JSON: %w", err)
	}
	draft := requests + "/." + rand.Text()
	if err := f.WriteFile(draft, append(content, '\n'), 0o660); err != nil {
		return errors.Join(err, f.Remove(draft))
	}
	return f.Rename(draft, name)
}

// maxAnswer is how large an answer may be.
const maxAnswer = 1 << 20

// answer is the value in the answer file; nil while there is none that can be
// taken. A file that is not an answer is trouble, and can be replaced.
func (f folder) answer(req driver.RenderRequest) (value json.RawMessage, trouble string, err error) {
	name := answerFile(req.IdempotencyKey)
	switch at, err := f.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	case !at.Mode().IsRegular():
		return nil, name + " is not a file, so it is not read", nil
	case at.Size() > maxAnswer:
		return nil, fmt.Sprintf("%s has more than %d bytes, so it is not read", name, maxAnswer), nil
	}
	file, err := f.Open(name)
	if err != nil {
		return nil, "", err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxAnswer))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, "", err
	}
	if !json.Valid(content) {
		return nil, name + " is not JSON", nil
	}
	if len(req.Input.Schema) > 0 {
		for _, d := range schema.Validate(req.Input.Schema, content) {
			return nil, fmt.Sprintf("%s is not an answer: %s %s", name, d.Pointer, d.Message), nil
		}
	}
	return content, "", nil
}
