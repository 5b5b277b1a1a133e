package phc

import (
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/ptp"
)

// A stamp that has not come after giveUp never does.
const giveUp = ptp.GiveUp

// sentQueue holds messages of a socket's error queue: the kernel returns each
// sent message with its software stamp at once, and it waits here for the
// hardware's.
type sentQueue []*sentMessage

type sentMessage struct {
	message
	packet ptp.Packet
	at     int64 // CLOCK_REALTIME of the kernel's stamp
	asked  bool
	ready  bool
	until  time.Time
}

// maxSent bounds what is taken from the kernel, which bounds its own queue by
// the socket's buffer.
const maxSent = 64

// pull takes what is in the error queue of fd, a descriptor of the socket, and
// returns how much that was.
func (s *socket) pull(fd int) (n int) {
	for ; len(s.sent) < maxSent; n++ {
		m, err := receive(fd, unix.MSG_ERRQUEUE, maxSentLen)
		if err != nil {
			return n
		}
		q := &sentMessage{message: m, until: time.Now().Add(giveUp)}
		at, stamped := m.softwareStamp()
		// What comes back of a sent message is a frame, whatever the socket.
		p, event := ptp.Parse(m.data)
		switch {
		case !stamped:
			q.ready = true // an error such as ICMP's
		case event && s.flags&unix.SOF_TIMESTAMPING_TX_HARDWARE != 0:
			q.packet, q.at = p, at
		case s.flags&unix.SOF_TIMESTAMPING_TX_SOFTWARE != 0:
			q.ready = true
		default:
			continue // the hardware stamps event messages alone
		}
		if s.flags&unix.SOF_TIMESTAMPING_OPT_TSONLY != 0 && stamped {
			q.data = nil
		}
		s.sent = append(s.sent, q)
	}
	return n
}

// maxSentLen is room for the longest frame that comes back.
const maxSentLen = 64 << 10

// advance asks for the stamps that are missing, and gives up on old ones.
func (s *socket) advance() {
	now := time.Now()
	kept := s.sent[:0]
	for _, q := range s.sent {
		if !q.ready {
			ns, ok := s.net.Tx(q.packet, q.at, !q.asked)
			q.asked = true
			if ok {
				q.ready = true
				q.restamp(s.option, s.keepSoftware(), func(int64) (int64, bool) { return ns, s.raw() })
			}
		}
		if q.ready || now.Before(q.until) {
			kept = append(kept, q)
		}
	}
	clear(s.sent[len(kept):])
	s.sent = kept
}

// take returns the first message whose stamp has come.
func (s *socket) take() (*message, bool) {
	for i, q := range s.sent {
		if q.ready {
			s.sent = append(s.sent[:i], s.sent[i+1:]...)
			return &q.message, true
		}
	}
	return nil, false
}

// ready tells whether take has one.
func (s *socket) ready() bool {
	for _, q := range s.sent {
		if q.ready {
			return true
		}
	}
	return false
}

func (s *socket) keepSoftware() bool { return s.flags&unix.SOF_TIMESTAMPING_SOFTWARE != 0 }

// raw tells whether the program wants to see hardware stamps.
func (s *socket) raw() bool { return s.flags&unix.SOF_TIMESTAMPING_RAW_HARDWARE != 0 }
