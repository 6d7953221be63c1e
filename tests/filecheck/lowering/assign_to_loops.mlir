// RUN: ocannl-opt %s -p lower-assign-to-loops | filecheck %s

// The variables of the left side make the nest, the others a reduction; a reset is the reduction's neutral element.
// CHECK-LABEL: loops.func @reduction {
// CHECK-NEXT:    %w = assign.node "w" constant : memref<16x2xf32>
// CHECK-NEXT:    %x = assign.node "x" constant : memref<10x2xf32>
// CHECK-NEXT:    %h = assign.node "h" local : memref<10x16xf32>
// CHECK-NEXT:    loops.nest "h" (b = 10, o = 16) {
// CHECK-NEXT:      %0 = loops.reduce add (k = 2) : f32 {
// CHECK-NEXT:        %1 = loops.load %w[o, k]
// CHECK-NEXT:        %2 = loops.load %x[b, k]
// CHECK-NEXT:        %3 = arith.mulf %1, %2 : f32
// CHECK-NEXT:        loops.yield %3
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %0, %h[b, o]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
assign.routine @reduction {
  %w = assign.node "w" constant : memref<16x2xf32>
  %x = assign.node "x" constant : memref<10x2xf32>
  %h = assign.node "h" local : memref<10x16xf32>
  assign.accum %h[b, o] :add= mul(%w[o, k], %x[b, k]) over (b = 10, o = 16, k = 2)
}

// Without a reset the old value is accumulated with the reduced one.
// CHECK-LABEL: loops.func @accumulate {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<10x2xf32>
// CHECK-NEXT:    %m = assign.node "m" on_device : memref<10xf32>
// CHECK-NEXT:    %n = assign.node "n" on_device : memref<10x2xf32>
// CHECK-NEXT:    loops.nest "m" (b = 10) {
// CHECK-NEXT:      %0 = loops.reduce max (i = 2) : f32 {
// CHECK-NEXT:        %1 = loops.load %x[b, i]
// CHECK-NEXT:        loops.yield %1
// CHECK-NEXT:      }
// CHECK-NEXT:      %2 = loops.load %m[b]
// CHECK-NEXT:      %3 = arith.maximumf %2, %0 : f32
// CHECK-NEXT:      loops.store %3, %m[b]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "n" (b = 10, i = 2) {
// CHECK-NEXT:      %4 = loops.load %x[b, i]
// CHECK-NEXT:      %5 = loops.load %n[b, i]
// CHECK-NEXT:      %6 = arith.addf %5, %4 : f32
// CHECK-NEXT:      loops.store %6, %n[b, i]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
assign.routine @accumulate {
  %x = assign.node "x" constant : memref<10x2xf32>
  %m = assign.node "m" on_device : memref<10xf32>
  %n = assign.node "n" on_device : memref<10x2xf32>
  assign.accum %m[b] max= %x[b, i] over (b = 10, i = 2)
  assign.accum %n[b, i] add= %x[b, i] over (b = 10, i = 2)
}

// Where not every cell is written, all are filled first: with the neutral element, or with zero.
// CHECK-LABEL: loops.func @fills {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<4xf32>
// CHECK-NEXT:    %d = assign.node "d" local : memref<4x4xf32>
// CHECK-NEXT:    %m = assign.node "m" local : memref<4x1x2xf32>
// CHECK-NEXT:    %c = assign.node "c" local : memref<8xf32>
// CHECK-NEXT:    loops.nest "d reset" (i = 4, i1 = 4) {
// CHECK-NEXT:      %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loops.store %0, %d[i, i1]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "d" (a = 4) {
// CHECK-NEXT:      %1 = loops.load %x[a]
// CHECK-NEXT:      loops.store %1, %d[a, a]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "m reset" (i = 4, i1 = 2) {
// CHECK-NEXT:      %2 = arith.constant 0x7f800000 : f32
// CHECK-NEXT:      loops.store %2, %m[i, 0, i1]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "m" (a = 4) {
// CHECK-NEXT:      %3 = loops.load %x[a]
// CHECK-NEXT:      loops.store %3, %m[a, 0, 1]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "c reset" (i = 8) {
// CHECK-NEXT:      %4 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loops.store %4, %c[i]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "c" (a = 4) {
// CHECK-NEXT:      %5 = loops.load %x[a]
// CHECK-NEXT:      loops.store %5, %c[2*a]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
assign.routine @fills {
  %x = assign.node "x" constant : memref<4xf32>
  %d = assign.node "d" local : memref<4x4xf32>
  %m = assign.node "m" local : memref<4x1x2xf32>
  %c = assign.node "c" local : memref<8xf32>
  assign.accum %d[a, a] :add= %x[a] over (a = 4)
  assign.accum %m[a, 0, 1] :min= %x[a] over (a = 4)
  assign.accum %c[2*a] := %x[a] over (a = 4)
}

// Set without a reset: the other cells stay.
// CHECK-LABEL: loops.func @set {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<4xf32>
// CHECK-NEXT:    %d = assign.node "d" on_device : memref<4x4xf32>
// CHECK-NEXT:    loops.nest "d" (a = 4) {
// CHECK-NEXT:      %0 = loops.load %x[-a + 3]
// CHECK-NEXT:      loops.store %0, %d[a, 2]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
assign.routine @set {
  %x = assign.node "x" constant : memref<4xf32>
  %d = assign.node "d" on_device : memref<4x4xf32>
  assign.accum %d[a, 2] = %x[-a + 3] over (a = 4)
}

// One number.
// CHECK-LABEL: loops.func @number {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<3xf32>
// CHECK-NEXT:    %s = assign.node "s" on_device : memref<f32>
// CHECK-NEXT:    loops.nest "s" () {
// CHECK-NEXT:      %0 = loops.reduce mul (a = 3) : f32 {
// CHECK-NEXT:        %1 = loops.load %x[a]
// CHECK-NEXT:        loops.yield %1
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %0, %s[]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "s" () {
// CHECK-NEXT:      %2 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:      loops.store %2, %s[]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
assign.routine @number {
  %x = assign.node "x" constant : memref<3xf32>
  %s = assign.node "s" on_device : memref<f32>
  assign.accum %s[] :mul= %x[a] over (a = 3)
  assign.accum %s[] = 0.5 over ()
}

// The term is computed in the widest float of operands and result.
// CHECK-LABEL: loops.func @precisions {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<3xf32>
// CHECK-NEXT:    %y = assign.node "y" constant : memref<3xf64>
// CHECK-NEXT:    %i = assign.node "i" constant : memref<3xi32>
// CHECK-NEXT:    %r = assign.node "r" on_device : memref<3xf32>
// CHECK-NEXT:    %q = assign.node "q" on_device : memref<3xi64>
// CHECK-NEXT:    %s = assign.node "s" on_device : memref<f32>
// CHECK-NEXT:    loops.nest "r" (a = 3) {
// CHECK-NEXT:      %0 = loops.load %x[a]
// CHECK-NEXT:      %1 = arith.extf %0 : f32 to f64
// CHECK-NEXT:      %2 = loops.load %y[a]
// CHECK-NEXT:      %3 = arith.mulf %1, %2 : f64
// CHECK-NEXT:      %4 = arith.truncf %3 : f64 to f32
// CHECK-NEXT:      loops.store %4, %r[a]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "r" (a = 3) {
// CHECK-NEXT:      %5 = loops.load %i[a]
// CHECK-NEXT:      %6 = arith.sitofp %5 : i32 to f32
// CHECK-NEXT:      %7 = arith.negf %6 : f32
// CHECK-NEXT:      loops.store %7, %r[a]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "q" (a = 3) {
// CHECK-NEXT:      %8 = loops.load %x[a]
// CHECK-NEXT:      %9 = loops.load %q[a]
// CHECK-NEXT:      %10 = arith.sitofp %9 : i64 to f32
// CHECK-NEXT:      %11 = arith.addf %10, %8 : f32
// CHECK-NEXT:      %12 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %13 = arith.constant -9.22337204e+18 : f32
// CHECK-NEXT:      %14 = arith.cmpf oge, %11, %13 : f32
// CHECK-NEXT:      %15 = arith.constant 9.22337204e+18 : f32
// CHECK-NEXT:      %16 = arith.cmpf olt, %11, %15 : f32
// CHECK-NEXT:      %17 = arith.andi %14, %16 : i1
// CHECK-NEXT:      %18 = arith.select %17, %11, %12 : f32
// CHECK-NEXT:      %19 = arith.fptosi %18 : f32 to i64
// CHECK-NEXT:      %20 = arith.cmpf olt, %11, %12 : f32
// CHECK-NEXT:      %21 = arith.constant -9223372036854775808 : i64
// CHECK-NEXT:      %22 = arith.constant 0 : i64
// CHECK-NEXT:      %23 = arith.select %20, %21, %22 : i64
// CHECK-NEXT:      %24 = arith.cmpf ogt, %11, %12 : f32
// CHECK-NEXT:      %25 = arith.constant 9223372036854775807 : i64
// CHECK-NEXT:      %26 = arith.select %24, %25, %23 : i64
// CHECK-NEXT:      %27 = arith.select %17, %19, %26 : i64
// CHECK-NEXT:      loops.store %27, %q[a]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "s" () {
// CHECK-NEXT:      %28 = loops.reduce add (a = 3) : f64 {
// CHECK-NEXT:        %29 = loops.load %y[a]
// CHECK-NEXT:        loops.yield %29
// CHECK-NEXT:      }
// CHECK-NEXT:      %30 = arith.truncf %28 : f64 to f32
// CHECK-NEXT:      loops.store %30, %s[]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
assign.routine @precisions {
  %x = assign.node "x" constant : memref<3xf32>
  %y = assign.node "y" constant : memref<3xf64>
  %i = assign.node "i" constant : memref<3xi32>
  %r = assign.node "r" on_device : memref<3xf32>
  %q = assign.node "q" on_device : memref<3xi64>
  %s = assign.node "s" on_device : memref<f32>
  assign.accum %r[a] := mul(%x[a], %y[a]) over (a = 3)
  assign.accum %r[a] := neg(%i[a]) over (a = 3)
  assign.accum %q[a] add= %x[a] over (a = 3)
  assign.accum %s[] :add= %y[a] over (a = 3)
}

// Static indices and positions become numbers.
// CHECK-LABEL: loops.func @indices indices (n, m = 4) {
// CHECK-NEXT:    %r = assign.node "r" on_device : memref<3xf64>
// CHECK-NEXT:    %x = assign.node "x" constant : memref<4x3xf32>
// CHECK-NEXT:    loops.nest "r" (i = 3) {
// CHECK-NEXT:      %0 = loops.index i : f64
// CHECK-NEXT:      loops.store %0, %r[i]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "r" (a = 3) {
// CHECK-NEXT:      %1 = loops.index 2*n + 1 : f64
// CHECK-NEXT:      %2 = loops.load %x[m, a]
// CHECK-NEXT:      %3 = arith.extf %2 : f32 to f64
// CHECK-NEXT:      %4 = arith.mulf %1, %3 : f64
// CHECK-NEXT:      loops.store %4, %r[a]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
assign.routine @indices indices (n, m = 4) {
  %r = assign.node "r" on_device : memref<3xf64>
  %x = assign.node "x" constant : memref<4x3xf32>
  %e = assign.embed 2*n + 1 : f32
  assign.range %r
  assign.accum %r[a] := mul(%e[], %x[m, a]) over (a = 3)
}

// A reduction over nothing is the neutral element, and there is nothing to do for no points.
// CHECK-LABEL: loops.func @empty {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<4x0xf32>
// CHECK-NEXT:    %m = assign.node "m" on_device : memref<4xf32>
// CHECK-NEXT:    %n = assign.node "n" on_device : memref<0xf32>
// CHECK-NEXT:    loops.nest "m" (a = 4) {
// CHECK-NEXT:      %0 = loops.reduce max (b = 0) : f32 {
// CHECK-NEXT:        %1 = loops.load %x[a, b]
// CHECK-NEXT:        loops.yield %1
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %0, %m[a]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "n" (b = 0) {
// CHECK-NEXT:      %2 = loops.reduce add (a = 4) : f32 {
// CHECK-NEXT:        %3 = loops.load %x[a, b]
// CHECK-NEXT:        loops.yield %3
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %2, %n[b]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
assign.routine @empty {
  %x = assign.node "x" constant : memref<4x0xf32>
  %m = assign.node "m" on_device : memref<4xf32>
  %n = assign.node "n" on_device : memref<0xf32>
  assign.accum %m[a] :max= %x[a, b] over (a = 4, b = 0)
  assign.accum %n[b] :add= %x[a, b] over (b = 0, a = 4)
}

// Nodes keep what is known of them, comments go; equal terms are computed once.
// CHECK-LABEL: loops.func @nodes attributes {note = "kept"} {
// CHECK-NEXT:    %x = assign.node "x" constant because "data" : memref<4xf32>
// CHECK-NEXT:    %y = assign.node "y" local at 64 because "intermediate value" : memref<4xf32>
// CHECK-NEXT:    loops.nest "y" (i = 4) {
// CHECK-NEXT:      %0 = loops.load %x[i]
// CHECK-NEXT:      %1 = math.exp %0 : f32
// CHECK-NEXT:      %2 = arith.addf %1, %1 : f32
// CHECK-NEXT:      loops.store %2, %y[i]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
assign.routine @nodes attributes {note = "kept"} {
  %x = assign.node "x" constant because "data" : memref<4xf32>
  %y = assign.node "y" local at 64 because "intermediate value" : memref<4xf32>
  assign.comment "gone"
  assign.accum %y[i] := add(exp(%x[i]), exp(%x[i])) over (i = 4)
}

// Random numbers: the place of an element, and the counter as an integer of 64 bits.
// CHECK-LABEL: loops.func @random indices (step_n) {
// CHECK:         loops.nest "u" (i = 3, i1 = 4) {
// CHECK-NEXT:      %0 = loops.index 4*i + i1 : i32
// CHECK-NEXT:      %1 = loops.index step_n + 1 : i64
// CHECK-NEXT:      %2 = loops.uniform "u#1" %0 at %1 : f32
// CHECK-NEXT:      loops.store %2, %u[i, i1]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "v" () {
// CHECK-NEXT:      %3 = loops.index 0 : i32
// CHECK-NEXT:      %4 = loops.load %n[0]
// CHECK-NEXT:      %5 = arith.extsi %4 : i32 to i64
// CHECK-NEXT:      %6 = loops.uniform "v" second %3 at %5 : f64
// CHECK-NEXT:      loops.store %6, %v[]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "v" () {
// CHECK-NEXT:      %7 = loops.index 0 : i32
// CHECK-NEXT:      %8 = loops.load %f[]
// CHECK-NEXT:      %9 = arith.fptosi %8 : f32 to i64
// CHECK-NEXT:      %10 = loops.uniform "v" %7 at %9 : f64
// CHECK-NEXT:      loops.store %10, %v[]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "large" (i = 65537, i1 = 65536) {
// CHECK-NEXT:      %11 = loops.index 65536*i + i1 : i64
assign.routine @random indices (step_n) {
  %u = assign.node "u" on_device : memref<3x4xf32>
  %v = assign.node "v" on_device : memref<f64>
  %n = assign.node "n" on_device : memref<1xi32>
  %f = assign.node "f" on_device : memref<f32>
  %large = assign.node "large" on_device : memref<65537x65536xf32>
  %next = assign.embed step_n + 1 : i64
  assign.uniform %u "u#1" at %next
  assign.uniform %v "v" second at %n
  assign.uniform %v "v" at %f
  assign.uniform %large "v" at %n
}

// Small floats: arithmetic is in f32; what several points add to is accumulated apart.
// CHECK-LABEL: loops.func @small {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<4xbf16>
// CHECK-NEXT:    %y = assign.node "y" on_device : memref<4xbf16>
// CHECK-NEXT:    %z = assign.node "z" on_device : memref<6xbf16>
// CHECK-NEXT:    %u = assign.node "u" on_device : memref<4xbf16>
// CHECK-NEXT:    %n = assign.node "n" on_device : memref<1xi64>
// CHECK-NEXT:    %0 = assign.node "z.sum" local because "accumulates for z" : memref<6xf32>
// CHECK-NEXT:    loops.nest "y" (i = 4) {
// CHECK-NEXT:      %1 = loops.load %x[i]
// CHECK-NEXT:      %2 = arith.extf %1 : bf16 to f32
// CHECK-NEXT:      %3 = math.exp %2 : f32
// CHECK-NEXT:      %4 = arith.truncf %3 : f32 to bf16
// CHECK-NEXT:      loops.store %4, %y[i]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "z.sum reset" (i = 6) {
// CHECK-NEXT:      %5 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loops.store %5, %0[i]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "z.sum" (i = 4, k = 3) {
// CHECK-NEXT:      %6 = loops.load %x[i]
// CHECK-NEXT:      %7 = arith.extf %6 : bf16 to f32
// CHECK-NEXT:      %8 = loops.load %0[i + k]
// CHECK-NEXT:      %9 = arith.addf %8, %7 : f32
// CHECK-NEXT:      loops.store %9, %0[i + k]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "z" (i = 6) {
// CHECK-NEXT:      %10 = loops.load %0[i]
// CHECK-NEXT:      %11 = arith.truncf %10 : f32 to bf16
// CHECK-NEXT:      loops.store %11, %z[i]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "u" (i = 4) {
// CHECK-NEXT:      %12 = loops.index i : i32
// CHECK-NEXT:      %13 = loops.load %n[0]
// CHECK-NEXT:      %14 = loops.uniform "u" %12 at %13 : f32
// CHECK-NEXT:      %15 = arith.constant 2.560000e+02 : f32
// CHECK-NEXT:      %16 = arith.mulf %14, %15 : f32
// CHECK-NEXT:      %17 = math.floor %16 : f32
// CHECK-NEXT:      %18 = arith.constant 3.906250e-03 : f32
// CHECK-NEXT:      %19 = arith.mulf %17, %18 : f32
// CHECK-NEXT:      %20 = arith.truncf %19 : f32 to bf16
// CHECK-NEXT:      loops.store %20, %u[i]
assign.routine @small {
  %x = assign.node "x" constant : memref<4xbf16>
  %y = assign.node "y" on_device : memref<4xbf16>
  %z = assign.node "z" on_device : memref<6xbf16>
  %u = assign.node "u" on_device : memref<4xbf16>
  %n = assign.node "n" on_device : memref<1xi64>
  assign.accum %y[i] := exp(%x[i]) over (i = 4)
  assign.accum %z[i + k] :add= %x[i] over (i = 4, k = 3)
  assign.uniform %u "u" at %n
}
