//go:build remove_dbg

package ecore

import (
	"reflect"
	"testing"
)

// What is for display alone takes no memory.
//
// OV-12
func TestNoDebugData(t *testing.T) {
	if Debug || reflect.TypeFor[debug]().Size() != 0 || reflect.TypeFor[counted]().Size() != 0 {
		t.Error("debug data is there")
	}
	x := single(t).to("hw_init")
	if h := x.d.Lead(); h.Phases() != nil || x.d.Show()[0].Ramrods != 0 || x.d.Show()[0].ByCommand != nil {
		t.Errorf("%v, %d ramrods", h.Phases(), x.d.Show()[0].Ramrods)
	}
}
