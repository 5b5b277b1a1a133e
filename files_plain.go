//go:build !packed

package tapir

import (
	"embed"
	"io/fs"
)

//go:embed LICENSE *.md docs/*.md docs/*/*.md docs/*/*.svg docs/*/*.png docs/reference/schemas.json
//go:embed examples/*.yaml examples/*/*.md examples/*/*/*.md examples/*/*/*.yaml examples/*/*.yaml examples/*/*.yml
//go:embed examples/ci/Dockerfile lab/examples/*/*.md lab/examples/*/*.yaml
//go:embed lab/tool/licenses/notices.txt lab/tool/ui/documents
//go:embed lab/tool/ui/page/*.html lab/tool/ui/page/*.css lab/tool/ui/page/*.js lab/tool/ui/page/*.LICENSE
var files embed.FS

func read() (map[string][]byte, error) {
	all := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[name], err = files.ReadFile(name)
		}
		return err
	})
	return all, err
}
