// Package tapir has the files of the repository that the program contains as they are:
// the documents and the examples they lead to, what shows them, and licences of others.
package tapir

import "sync"

// Files returns the octets of each file by its path in the repository, such as
// docs/howto/run.md. Nobody changes them.
var Files = sync.OnceValues(read)
