// Package release tests what make release builds.
package release
