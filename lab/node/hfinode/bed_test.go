package hfinode_test

import (
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"tapir/lab/check/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	must   = testenv.Must
	await  = testenv.Until
	prefix = netip.MustParsePrefix
	ips    = testenv.Prefixes
)
