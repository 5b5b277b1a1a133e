package tap

import "testing"

func TestCheckName(t *testing.T) {
	tests := []struct {
		name string
		ok   bool
	}{
		{"", true}, {"tap0", true}, {"a23456789012345", true},
		{"a234567890123456", false}, {"a/b", false}, {"a b", false}, {"a:b", false}, {"tap%d", false}, {"..", false},
	}
	for _, tt := range tests {
		if err := CheckName(tt.name); (err == nil) != tt.ok {
			t.Errorf("CheckName(%q) = %v", tt.name, err)
		}
	}
}
