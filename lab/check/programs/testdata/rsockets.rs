// A program in Rust on libibverbs and librdmacm: it makes objects of the first RDMA
// device, then sends 100,000 octets by an rsocket and gets them back. Its argument is the
// server's IPv4 address; the server's begins with "-s".
use std::ffi::{c_char, c_int, c_void, CStr};

#[repr(C)]
struct SockAddr {
    family: u16,
    port: u16,
    addr: [u8; 4],
    zero: [u8; 8],
}

#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut c_void;
    fn ibv_get_device_name(device: *mut c_void) -> *const c_char;
    fn ibv_open_device(device: *mut c_void) -> *mut c_void;
    fn ibv_alloc_pd(context: *mut c_void) -> *mut c_void;
    fn ibv_reg_mr(pd: *mut c_void, addr: *mut c_void, length: usize, access: c_int) -> *mut c_void;
    fn ibv_create_cq(context: *mut c_void, entries: c_int, its: *mut c_void, channel: *mut c_void, vector: c_int) -> *mut c_void;
    fn ibv_destroy_cq(cq: *mut c_void) -> c_int;
    fn ibv_dereg_mr(mr: *mut c_void) -> c_int;
    fn ibv_dealloc_pd(pd: *mut c_void) -> c_int;
    fn ibv_close_device(context: *mut c_void) -> c_int;
}

#[link(name = "rdmacm")]
extern "C" {
    fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn rbind(s: c_int, addr: *const SockAddr, length: u32) -> c_int;
    fn rlisten(s: c_int, backlog: c_int) -> c_int;
    fn raccept(s: c_int, addr: *mut SockAddr, length: *mut u32) -> c_int;
    fn rconnect(s: c_int, addr: *const SockAddr, length: u32) -> c_int;
    fn rsend(s: c_int, data: *const c_void, length: usize, flags: c_int) -> isize;
    fn rrecv(s: c_int, data: *mut c_void, length: usize, flags: c_int) -> isize;
    fn rshutdown(s: c_int, how: c_int) -> c_int;
    fn rclose(s: c_int) -> c_int;
}

const SIZE: usize = 100_000;

unsafe fn objects() {
    let mut count = 0;
    let list = ibv_get_device_list(&mut count);
    assert!(count > 0, "no device");
    let context = ibv_open_device(*list);
    let pd = ibv_alloc_pd(context);
    let mut memory = vec![0u8; 1 << 20];
    let mr = ibv_reg_mr(pd, memory.as_mut_ptr() as *mut c_void, memory.len(), 7);
    let cq = ibv_create_cq(context, 16, std::ptr::null_mut(), std::ptr::null_mut(), 0);
    assert!(!mr.is_null() && !cq.is_null(), "objects");
    println!("device {}", CStr::from_ptr(ibv_get_device_name(*list)).to_str().unwrap());
    assert_eq!(ibv_destroy_cq(cq) + ibv_dereg_mr(mr) + ibv_dealloc_pd(pd) + ibv_close_device(context), 0);
}

unsafe fn send(s: c_int, data: &[u8]) {
    let mut done = 0;
    while done < data.len() {
        let n = rsend(s, data[done..].as_ptr() as *const c_void, data.len() - done, 0);
        assert!(n > 0, "rsend");
        done += n as usize;
    }
}

unsafe fn receive(s: c_int) -> Vec<u8> {
    let mut data = vec![0u8; SIZE];
    let mut done = 0;
    while done < SIZE {
        let n = rrecv(s, data[done..].as_mut_ptr() as *mut c_void, SIZE - done, 0);
        assert!(n > 0, "rrecv");
        done += n as usize;
    }
    data
}

fn main() {
    let arg = std::env::args().nth(1).expect("address");
    let host: Vec<u8> = arg.trim_start_matches("-s").split('.').map(|x| x.parse().unwrap()).collect();
    let addr = SockAddr { family: 2, port: 7801u16.to_be(), addr: [host[0], host[1], host[2], host[3]], zero: [0; 8] };
    unsafe {
        objects();
        let s = rsocket(2, 1, 0);
        if arg.starts_with("-s") {
            assert_eq!(rbind(s, &addr, 16) + rlisten(s, 1), 0, "listen");
            let c = raccept(s, std::ptr::null_mut(), std::ptr::null_mut());
            send(c, &receive(c));
            rshutdown(c, 2);
            rclose(c);
        } else {
            assert_eq!(rconnect(s, &addr, 16), 0, "connect");
            let data: Vec<u8> = (0..SIZE).map(|i| (i * i >> 7) as u8).collect();
            send(s, &data);
            assert!(receive(s) == data, "the octets differ");
            println!("verified {} octets", SIZE);
            rshutdown(s, 2);
        }
        rclose(s);
    }
}
