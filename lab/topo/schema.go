package topo

import (
	"encoding/json"

	"tapir/lab/conf"
	"tapir/lab/conf/hficonf"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/swconf"
)

// JSONSchema is the schema of the topology file, made of the tables by which
// it is read.
func JSONSchema() []byte {
	var nodes, steps []conf.Schema
	for _, k := range kinds {
		n := &Node{em: hficonf.NewEMDraft(), sw: new(swconf.Draft), card: new(nicconf.Draft)}
		nodes = append(nodes, conf.Object(k.withKind(n), "kind"))
	}
	for _, v := range verbs {
		steps = append(steps, conf.Object(append(v.fields(new(stepDraft)), new(stepDraft).clockField()),
			append([]string{string(v.verb)}, v.required...)...))
	}
	s := conf.Object(new(draft{Lab: new(Lab)}).fields(), "nodes")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "a lab of tapir"
	properties := s["properties"].(map[string]any)
	properties["nodes"] = conf.Schema{"type": "object", "additionalProperties": conf.Schema{"anyOf": nodes},
		"minProperties": 1,
		"propertyNames": conf.Schema{"pattern": conf.ValidName.String()}}
	properties["links"] = conf.Schema{"type": "array", "items": conf.Schema{"anyOf": []conf.Schema{pairOfNodes,
		conf.Object(new(linkDraft).fields(), "between")}}}
	properties["steps"] = conf.Schema{"type": "array", "items": conf.Schema{"anyOf": steps}}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // it is made of maps, slices and strings
	}
	return append(b, '\n')
}
