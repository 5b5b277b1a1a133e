package schema

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"
)

type inner struct {
	A int     `json:"a"`
	B *string `json:"b"`
}

type outer struct {
	inner
	B     []inner         `json:"b,omitempty"`
	Addr  netip.Addr      `json:"addr"`
	At    time.Time       `json:"at"`
	For   time.Duration   `json:"for,omitzero"`
	Big   uint64          `json:"big,string"`
	Map   map[string]bool `json:"map"`
	Raw   json.RawMessage `json:"raw"`
	Self  *outer          `json:"self"`
	None  int             `json:"-"`
	Plain [2]float64
}

// A schema has what encoding/json writes of a type: names, members that may be left out, and what an outer struct hides.
func TestSchema(t *testing.T) {
	d := Add("test one", 3, outer{})
	defer delete(all, "test one")
	got, err := json.Marshal(d.Schema())
	const want = `{"$id":"tapir:test-one/3","$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false,` +
		`"properties":{"Plain":{"items":{"type":"number"},"type":"array"},"a":{"type":"integer"},"addr":{"type":"string"},"at":{"format":"date-time","type":"string"},` +
		`"b":{"items":{"additionalProperties":false,"properties":{"a":{"type":"integer"},"b":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a","b"],"type":"object"},"type":["array","null"]},` +
		`"big":{"type":"string"},"for":{"type":"integer"},"map":{"additionalProperties":{"type":"boolean"},"type":["object","null"]},"raw":{},"self":{"anyOf":[{"type":"object"},{"type":"null"}]}},` +
		`"required":["Plain","a","addr","at","big","map","raw","self"],"title":"tapir test one","type":"object"}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if Find("test one two") != d || Find("test") != nil || Add("test one", 2, inner{}) != d || d.Version != 3 || len(d.types) != 2 {
		t.Errorf("%+v", d)
	}
	if s := d.Schema(); s["anyOf"] == nil || s["type"] != nil {
		t.Errorf("%v", s)
	}
	if Results("test one", 1, time.Now) != d || len(d.types) != 3 {
		t.Errorf("%+v", d)
	}
}
