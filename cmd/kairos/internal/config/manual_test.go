package config

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// yamlBlock is a block of YAML in a page.
var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// Each configuration in the manual loads as it is written.
func TestTheConfigurationsOfTheManualAreTaken(t *testing.T) {
	var schema schemaNode
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir("../../../../docs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		page, err := os.ReadFile(path)
		for _, block := range yamlBlock.FindAllStringSubmatch(string(page), -1) {
			first, _, _ := strings.Cut(block[1], ":")
			if _, ours := schema.Properties[first]; !ours {
				continue // such as a tree, a client's file or front matter
			}
			seen++
			if _, err := configured(t, block[1]).Load(); err != nil {
				t.Errorf("%s: %v\n%s", path, err, block[1])
			}
		}
		return err
	})
	if err != nil || seen < 20 {
		t.Errorf("%d configurations were found, want at least 20; %v", seen, err)
	}
}
