package config

// HandoverConfig says where kairos-session-handover.txt is kept; nowhere, if
// neither is set.
type HandoverConfig struct {
	Dir string `yaml:"dir"`
	// InRoot: under the folder that a run works in.
	InRoot bool `yaml:"in_root"`
}

// RootsAllowed are the folders that steps may look into whoever asks.
func (c Config) RootsAllowed() []string {
	listed, _ := c.Drivers.Settings["roots"].Config["allow"].([]any)
	var allowed []string
	for _, v := range listed {
		if dir, ok := v.(string); ok && dir != "" {
			allowed = append(allowed, dir)
		}
	}
	return allowed
}
