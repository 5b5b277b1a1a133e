package k8s

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/containernetworking/cni/libcni"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"tapir/lab/tool/cni"
)

// attachment is the NetworkAttachmentDefinition of the Network Plumbing Working Group.
type attachment struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Config string `json:"config"`
	} `json:"spec"`
}

// kinds are the types of the API's own library by kind; network stands for ours.
var kinds = map[string]func() any{
	"v1 Namespace":      func() any { return new(core.Namespace) },
	"v1 Pod":            func() any { return new(core.Pod) },
	"apps/v1 DaemonSet": func() any { return new(apps.DaemonSet) },
	"batch/v1 Job":      func() any { return new(batch.Job) },
	"k8s.cni.cncf.io/v1 NetworkAttachmentDefinition": func() any { return new(attachment) },
}

// read decodes all manifests strictly: no key twice, none that the API does not know.
func read(t *testing.T) (all []any) {
	t.Helper()
	files, err := filepath.Glob("manifests/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%q %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range bytes.Split(text, []byte("\n---\n")) {
			var head meta.TypeMeta
			if err := yaml.Unmarshal(doc, &head); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			kind := kinds[head.APIVersion+" "+head.Kind]
			if kind == nil {
				t.Fatalf("%s: %s %s is not known", file, head.APIVersion, head.Kind)
			}
			object := kind()
			if err := yaml.UnmarshalStrict(doc, object); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			all = append(all, object)
		}
	}
	return all
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// The manifests are of the API's types, their volumes and selectors fit together, and
// none asks for rights.
func TestManifests(t *testing.T) {
	for _, object := range read(t) {
		if m := object.(meta.Object); !nameForm.MatchString(m.GetName()) {
			t.Errorf("name %q", m.GetName())
		}
		switch o := object.(type) {
		case *apps.DaemonSet:
			for k, v := range o.Spec.Selector.MatchLabels {
				if o.Spec.Template.Labels[k] != v {
					t.Errorf("the selector's %s is not the template's", k)
				}
			}
			podFits(t, &o.Spec.Template.Spec)
		case *batch.Job:
			if p := o.Spec.Template.Spec.RestartPolicy; p != core.RestartPolicyNever && p != core.RestartPolicyOnFailure {
				t.Errorf("a job's pods do not restart %s", p)
			}
			podFits(t, &o.Spec.Template.Spec)
			wantsNIC(t, &o.Spec.Template.ObjectMeta, &o.Spec.Template.Spec)
		case *core.Pod:
			podFits(t, &o.Spec)
			wantsNIC(t, &o.ObjectMeta, &o.Spec)
		case *attachment:
			list, err := libcni.ConfListFromBytes([]byte(o.Spec.Config))
			if err != nil || len(list.Plugins) != 1 || list.Plugins[0].Network.Type != cni.Name || list.Name != o.Name {
				t.Errorf("%v %+v", err, list)
			}
			var own struct {
				Plugins []cni.Config `json:"plugins"`
			}
			if err := json.Unmarshal([]byte(o.Spec.Config), &own); err != nil || own.Plugins[0].Bridge == "" {
				t.Error(err)
			}
			if o.Annotations["k8s.v1.cni.cncf.io/resourceName"] != resource {
				t.Error(o.Annotations)
			}
		}
	}
}

const resource = "tapir.dev/nic"

func podFits(t *testing.T, p *core.PodSpec) {
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range append(p.InitContainers, p.Containers...) {
		if c.Image == "" || len(c.Command) == 0 || !nameForm.MatchString(c.Name) {
			t.Errorf("container %+v", c)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s: there is no volume %s", c.Name, m.Name)
			}
		}
		if s := c.SecurityContext; s != nil && (s.Privileged != nil && *s.Privileged || s.Capabilities != nil && len(s.Capabilities.Add) > 0) {
			t.Errorf("%s asks for rights", c.Name)
		}
	}
}

// wantsNIC holds a pod to the network and the resource that go together.
func wantsNIC(t *testing.T, m *meta.ObjectMeta, p *core.PodSpec) {
	limits := p.Containers[0].Resources.Limits
	if n := limits[resource]; n.Value() != 1 || m.Annotations["k8s.v1.cni.cncf.io/networks"] == "" || p.HostNetwork {
		t.Errorf("limits %v, annotations %v", limits, m.Annotations)
	}
}
