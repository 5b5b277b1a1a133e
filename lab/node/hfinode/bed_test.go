package hfinode_test

import (
	"testing"

	"go.uber.org/goleak"

	"tapir/lab/check/opabed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	must   = opabed.Must
	await  = opabed.Await
	prefix = opabed.Prefix
	ips    = opabed.IPs
)
