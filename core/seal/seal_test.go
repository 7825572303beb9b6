package seal_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/seal"
)

func keys(all ...byte) func() ([][32]byte, error) {
	return func() (keys [][32]byte, err error) {
		for _, b := range all {
			keys = append(keys, [32]byte{b})
		}
		return keys, nil
	}
}

func TestWhatIsSealedIsOpenedForTheSameUseOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.SliceOf(rapid.Byte()).Draw(t, "content")
		mine := seal.New("use 1", keys(1))
		text, err := mine.Seal(content)
		if err != nil || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Fatalf("Seal(%x) = %q, %v", content, text, err)
		}
		for name, s := range map[string]seal.Sealer{"same": mine, "rotated": seal.New("use 1", keys(2, 1))} {
			if got, err := s.Open(text); err != nil || string(got) != string(content) {
				t.Errorf("Open with the %s keys = %x, %v, want %x", name, got, err, content)
			}
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		changed := text[:at] + string(rapid.SampledFrom([]rune("AZaz09-_.= \n")).Draw(t, "letter")) + text[at+1:]
		for name, try := range map[string]struct {
			s    seal.Sealer
			text string
		}{
			"another use": {seal.New("use 2", keys(1)), text}, "another key": {seal.New("use 1", keys(2)), text},
			"a changed text": {mine, changed}, "a longer text": {mine, text + "A"}, "nothing": {mine, ""},
		} {
			if try.text == text && name == "a changed text" {
				continue
			}
			if got, err := try.s.Open(try.text); !errors.Is(err, seal.ErrNotSealed) {
				t.Errorf("Open for %s = %x, %v, want ErrNotSealed", name, got, err)
			}
		}
	})
}

func TestKeysAreFetchedUntilThereAreSome(t *testing.T) {
	asked, failure := 0, errors.New("the disk is full")
	s := seal.New("use 1", func() ([][32]byte, error) {
		if asked++; asked == 1 {
			return nil, failure
		}
		return keys(1)()
	})
	if _, err := s.Seal(nil); !errors.Is(err, failure) {
		t.Errorf("Seal without keys = %v, want why there are none", err)
	}
	for range 2 {
		if _, err := s.Seal(nil); err != nil || asked != 2 {
			t.Errorf("Seal = %v after %d requests for keys, want the second one kept", err, asked)
		}
	}
	if _, err := seal.New("use 1", keys()).Open("A"); err == nil || errors.Is(err, seal.ErrNotSealed) {
		t.Errorf("Open with an empty list of keys = %v, want an error about them", err)
	}
}
