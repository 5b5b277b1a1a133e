package doorbell

import _ "embed" // the library

//go:embed doorbell_arm64.so
var library string
