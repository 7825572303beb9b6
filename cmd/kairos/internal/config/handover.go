package config

// HandoverConfig says where kairos-session-handover.txt is kept; empty: nowhere.
type HandoverConfig struct {
	Dir string `yaml:"dir"`
}
