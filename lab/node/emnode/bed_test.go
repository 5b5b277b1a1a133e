package emnode

import (
	"testing"

	"go.uber.org/goleak"

	"tapir/lab/check/opabed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	must  = opabed.Must
	await = opabed.Await
	ips   = opabed.IPs
)
