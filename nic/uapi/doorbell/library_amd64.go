package doorbell

import _ "embed" // the library

//go:embed doorbell_amd64.so
var library string
