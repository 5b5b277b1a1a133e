package iscsi

import "strings"

// NameRule is what ValidName wants.
const NameRule = "a name begins with iqn., eui. or naa. and has at most 223 lower-case letters, digits, dots, " +
	"colons and hyphens"

// ValidName tells whether s is a name of a target or initiator by RFC 7143 section 4.2.7.1 that
// needs no folding.
func ValidName(s string) bool {
	if len(s) < 5 || len(s) > 223 || s[:4] != "iqn." && s[:4] != "eui." && s[:4] != "naa." {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.:-") == ""
}
