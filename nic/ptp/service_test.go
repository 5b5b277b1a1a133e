package ptp

import (
	"errors"
	"testing"

	"tapir/nic/ip"
	"tapir/nic/port"
	"tapir/nic/secret"
	"tapir/ptp/clock"
	"tapir/wire/frame"
)

// Who comes second does not get the unit, whatever else is wrong.
func TestServiceIsBusy(t *testing.T) {
	phc, err := clock.New(clock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	wire := port.New(&port.Common{PHC: phc}, frame.Wire, nil, nil)
	s := NewService(Env{Wire: wire, IP: ip.New(ip.Settings{MTU: 1500}, ip.Env{Wire: wire, IDs: secret.Secret{}.Source()}), Observe: func(bool) error {
		return errors.New("no")
	}}, Faults{})
	other := New(&s.port, ptpEngine, phc)
	if err := other.Enable(1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetHWTimestamps(HWConfig{TxType: TxOn, Filter: FilterAll}, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("%v", err)
	}
}
