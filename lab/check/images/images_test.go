// Package images tests the OCI images that .ci/images makes.
package images

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
)

var all = flag.Bool("all", false, "make the image with Debian's tools, too, which takes a minute or two")

// maxImage is what the image of the program alone may have, in octets.
const maxImage = 30 << 20

// descriptor, manifest and config are the parts of the OCI image specification 1.0.2 that
// every image has.
type (
	descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int64             `json:"size"`
		Annotations map[string]string `json:"annotations"`
	}
	manifest struct {
		SchemaVersion int          `json:"schemaVersion"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}
	config struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
		RootFS       struct {
			Type    string   `json:"type"`
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
		Config struct {
			Entrypoint []string
			Env        []string
		} `json:"config"`
	}
)

// blob checks the digest and size of a blob and returns its file.
func blob(t *testing.T, layout string, d descriptor, mediaType string) string {
	t.Helper()
	sum, ok := strings.CutPrefix(d.Digest, "sha256:")
	name := filepath.Join(layout, "blobs", "sha256", sum)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := sha256.Sum256(text); !ok || hex.EncodeToString(got[:]) != sum || int64(len(text)) != d.Size || d.MediaType != mediaType {
		t.Errorf("%+v: %d octets, SHA-256 %x, want %s", d, len(text), got, mediaType)
	}
	return name
}

func decode(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// valid holds a layout to the specification, and returns the configuration and the size of
// the image of that name.
func valid(t *testing.T, layout, name string) (c config, size int64) {
	t.Helper()
	var version struct{ ImageLayoutVersion string }
	decode(t, filepath.Join(layout, "oci-layout"), &version)
	var index struct {
		SchemaVersion int          `json:"schemaVersion"`
		Manifests     []descriptor `json:"manifests"`
	}
	decode(t, filepath.Join(layout, "index.json"), &index)
	if version.ImageLayoutVersion != "1.0.0" || index.SchemaVersion != 2 {
		t.Errorf("layout %q, index %d", version.ImageLayoutVersion, index.SchemaVersion)
	}
	for _, d := range index.Manifests {
		if d.Annotations["org.opencontainers.image.ref.name"] != name {
			continue
		}
		var m manifest
		decode(t, blob(t, layout, d, "application/vnd.oci.image.manifest.v1+json"), &m)
		decode(t, blob(t, layout, m.Config, "application/vnd.oci.image.config.v1+json"), &c)
		if m.SchemaVersion != 2 || c.OS != "linux" || c.RootFS.Type != "layers" || len(c.RootFS.DiffIDs) != len(m.Layers) {
			t.Errorf("%+v %+v", m, c)
		}
		for i, l := range m.Layers {
			size += l.Size
			f, err := os.Open(blob(t, layout, l, "application/vnd.oci.image.layer.v1.tar+gzip"))
			testenv.Must(t, err)
			z, err := gzip.NewReader(f)
			testenv.Must(t, err)
			h := sha256.New()
			_, err = io.Copy(h, z)
			testenv.Must(t, err, f.Close())
			if got := fmt.Sprintf("sha256:%x", h.Sum(nil)); got != c.RootFS.DiffIDs[i] {
				t.Errorf("layer %d is %s, want %s", i, got, c.RootFS.DiffIDs[i])
			}
		}
		return c, size
	}
	t.Fatalf("there is no image %s", name)
	return c, 0
}

// layout makes images and returns their layout.
func layout(t *testing.T, images ...string) string {
	t.Helper()
	if _, err := exec.LookPath("umoci"); err != nil {
		t.Skip("no umoci")
	}
	dir := testenv.PublicDir(t)
	built, err := testenv.Build(filepath.Join(dir, "bin"))
	testenv.Must(t, err)
	cmd := exec.Command("../../../.ci/images", append([]string{filepath.Join(dir, "oci")}, images...)...)
	cmd.Env = append(os.Environ(), "TAPIR="+built)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "oci")
}

// unpacked is the root directory of an image, owned by the user nobody.
func unpacked(t *testing.T, layout, name string) (root string) {
	t.Helper()
	bundle := filepath.Join(filepath.Dir(layout), "bundle-"+name)
	unpack := exec.Command("umoci", "unpack", "--rootless", "--image", layout+":"+name, bundle)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	root = filepath.Join(bundle, "rootfs")
	testenv.Must(t, os.MkdirAll(filepath.Join(root, "proc"), 0o755), exec.Command("chown", "-R", "nobody", bundle).Run())
	return root
}

// in runs a command in a root directory as an engine without rights does: an ordinary
// user makes user, mount, network, PID, IPC and UTS namespaces.
func in(t *testing.T, root string, argv ...string) (string, error) {
	t.Helper()
	cmd := testenv.Unprivileged(t, t.Context(), testenv.PublicDir(t), append([]string{"unshare", "--user", "--map-root-user",
		"--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "--root=" + root, "--wd=/"}, argv...)...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The image of the program alone is small and valid, and the program runs in it, without
// any other file, as an ordinary user.
func TestProgram(t *testing.T) {
	dir := layout(t, "tapir")
	c, size := valid(t, dir, "tapir")
	if size > maxImage || len(c.Config.Entrypoint) != 1 || c.Config.Entrypoint[0] != "/tapir" {
		t.Errorf("%d octets, %+v", size, c.Config)
	}
	root := unpacked(t, dir, "tapir")
	if files, err := os.ReadDir(root); err != nil || len(files) != 3 { // and proc, tmp
		t.Errorf("%v %v", files, err)
	}
	if out, err := in(t, root, "/tapir", "version"); err != nil || !strings.HasPrefix(out, "tapir ") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := in(t, root, "/tapir", "demo", "--wire", "shm", "--out", "/out"); err != nil || !strings.Contains(out, "verified") {
		t.Errorf("%v: %s", err, out)
	}
}

// The image with Debian's tools is valid, and a stock RDMA program runs in it on a NIC
// whose wire is a UDP socket, as an ordinary user without /dev/net/tun.
func TestTools(t *testing.T) {
	if !*all {
		return // part of make interop
	}
	dir := layout(t)
	valid(t, dir, "tapir-tools")
	root := unpacked(t, dir, "tapir-tools")
	for _, program := range []string{"ib_write_bw", "rping", "ptp4l", "tcpdump", "ip", "setsid", "tapir-device-plugin"} {
		if out, err := in(t, root, "/bin/sh", "-c", "command -v "+program); err != nil {
			t.Errorf("%s: %v: %s", program, err, out)
		}
	}
	out, err := in(t, root, "/bin/sh", "-c", `ip link set lo up || exit 9
tapir nic --name a --wire udp:127.0.0.1:7001,127.0.0.1:7002 --ip 10.0.0.1/24 &
tapir nic --name b --wire udp:127.0.0.1:7002,127.0.0.1:7001 --ip 10.0.0.2/24 &
tapir wait a b || exit 8
tapir run --nic a -- ib_write_bw -R -F -n 100 &
until tapir show a cep | grep -q 18515; do sleep 0.1; done
tapir run --nic b -- ib_write_bw -R -F -n 100 10.0.0.1 || exit 7
tapir stop a b`)
	if err != nil || strings.Count(out, "65536      100") != 2 {
		t.Errorf("%v: %s", err, out)
	}
}
