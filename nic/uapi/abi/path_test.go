package abi

import "testing"

// TestFlowLabel: of a flow label with all 32 bits set, as UCX has it, 20 count.
func TestFlowLabel(t *testing.T) {
	b := make([]byte, 32)
	for i := destFlow; i < destFlow+4; i++ {
		b[i] = 0xff
	}
	if ah, dest := AHPath(b).FlowLabel, DestPath(b).FlowLabel; ah != 0xfffff || dest != 0xfffff {
		t.Errorf("flow labels %#x and %#x, want 0xfffff", ah, dest)
	}
}
