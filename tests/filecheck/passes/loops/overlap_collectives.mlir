// RUN: ocannl-opt %s --split-input-file -p overlap-collectives | filecheck %s

// Both sums go on their way as soon as there is something to send, and while they do, `h` is computed. What reads them comes
// last, and waits. `b.packed` is there for an exchange alone, and does not keep its place.
// CHECK-LABEL: loops.func @gradients
// CHECK:         loops.nest "a"
// CHECK-NEXT:      loops.load
// CHECK-NEXT:      loops.store
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.collective start all_gather %rows from %a over "data"
// CHECK-NEXT:    loops.nest "b.packed"
// CHECK:         loops.collective start all_gather %more from %b over "data" sums ("b", "c")
// CHECK-NEXT:    loops.nest "h"
// CHECK:         loops.collective wait all_gather %rows from %a over "data"
// CHECK-NEXT:    loops.nest "y"
// CHECK:         loops.collective wait all_gather %more from %b over "data" sums ("b", "c")
// CHECK-NEXT:    loops.nest "z"
loops.func @gradients mesh (data = 2) {
  %x = assign.node "x" constant because "data" : memref<64xf32>
  %a = assign.node "a" local because "intermediate value" : memref<64xf32>
  %rows = assign.node "rows" local because "of a collective" : memref<2x64xf32>
  %b = assign.node "b" local because "intermediate value" : memref<64xf32>
  %more = assign.node "more" local because "of a collective" : memref<2x64xf32>
  %h = assign.node "h" on_device because "node" : memref<64xf32>
  %y = assign.node "y" on_device because "gradient" : memref<64xf32>
  %z = assign.node "z" on_device because "gradient" : memref<64xf32>
  loops.nest "a" (i = 64) {
    %0 = loops.load %x[i]
    loops.store %0, %a[i]
  }
  loops.collective all_gather %rows from %a over "data"
  loops.nest "y" (i = 64) {
    %1 = loops.load %rows[0, i]
    loops.store %1, %y[i]
  }
  loops.nest "h" (i = 64) {
    %2 = loops.load %x[i]
    loops.store %2, %h[i]
  }
  loops.nest "b.packed" (i = 64) {
    %3 = loops.load %x[-i + 63]
    loops.store %3, %b[i]
  }
  loops.collective all_gather %more from %b over "data" sums ("b", "c")
  loops.nest "z" (i = 64) {
    %4 = loops.load %more[1, i]
    loops.store %4, %z[i]
  }
}

// -----

// A large sum in two exchanges: the terms of a part have come when so much was computed, and then the second one starts. Without
// that, all that is left would run before, and nothing during the second one.
// CHECK-LABEL: loops.func @two_steps
// CHECK:         loops.collective start all_to_all %rows from %part over "data"
// CHECK-NEXT:    loops.nest "h0"
// CHECK:         loops.collective wait all_to_all %rows from %part over "data"
// CHECK-NEXT:    loops.nest "sum"
// CHECK:         loops.collective start all_gather %w from %sum over "data"
// CHECK-NEXT:    loops.nest "h1"
// CHECK:         loops.collective wait all_gather %w from %sum over "data"
// CHECK-NOT:     loops.nest
loops.func @two_steps mesh (data = 2) {
  %part = assign.node "part" on_device because "node" : memref<2x4096xf32>
  %rows = assign.node "rows" local because "of a collective" : memref<2x4096xf32>
  %sum = assign.node "sum" local because "of a collective" : memref<4096xf32>
  %w = assign.node "w" on_device because "gradient" : memref<2x4096xf32>
  %h0 = assign.node "h0" on_device because "node" : memref<524288xf32>
  %h1 = assign.node "h1" on_device because "node" : memref<524288xf32>
  loops.collective all_to_all %rows from %part over "data"
  loops.nest "sum" (i = 4096) {
    %0 = loops.load %rows[0, i]
    %1 = loops.load %rows[1, i]
    %2 = arith.addf %0, %1 : f32
    loops.store %2, %sum[i]
  }
  loops.collective all_gather %w from %sum over "data"
  loops.nest "h0" (i = 524288) {
    %3 = loops.load %h0[i]
    loops.store %3, %h0[i]
  }
  loops.nest "h1" (i = 524288) {
    %4 = loops.load %h1[i]
    loops.store %4, %h1[i]
  }
}

// -----

// Parameters that are gathered start ahead of their use, and not as early as they can: each takes memory from then on.
// CHECK-LABEL: loops.func @parameters
// CHECK-NOT:     loops.collective
// CHECK:         loops.nest "h0"
// CHECK:         loops.collective start all_gather %v from %part over "data"
// CHECK-NEXT:    loops.nest "h1"
// CHECK:         loops.collective wait all_gather %v from %part over "data"
// CHECK-NEXT:    loops.nest "y"
loops.func @parameters mesh (data = 2) {
  %part = assign.node "part" on_device because "parameter" : memref<65536xf32>
  %v = assign.node "v" local because "of a collective" : memref<2x65536xf32>
  %h0 = assign.node "h0" on_device because "node" : memref<8388608xf32>
  %h1 = assign.node "h1" on_device because "node" : memref<524288xf32>
  %y = assign.node "y" on_device because "node" : memref<65536xf32>
  loops.nest "h0" (i = 8388608) {
    %0 = loops.load %h0[i]
    loops.store %0, %h0[i]
  }
  loops.nest "h1" (i = 524288) {
    %1 = loops.load %h1[i]
    loops.store %1, %h1[i]
  }
  loops.collective all_gather %v from %part over "data"
  loops.nest "y" (i = 65536) {
    %2 = loops.load %v[0, i]
    loops.store %2, %y[i]
  }
}

// -----

// Other stages have other programs: exchanges stay on their side of a message, which stays as it is.
// CHECK-LABEL: loops.func @messages
// CHECK:         loops.collective start all_gather %rows from %x over "data"
// CHECK-NEXT:    loops.nest "h"
// CHECK:         loops.collective wait all_gather %rows from %x over "data"
// CHECK-NEXT:    loops.collective send %x as 0 to 1 over "stage"
// CHECK-NEXT:    loops.collective start all_gather %more from %x over "data"
// CHECK-NEXT:    loops.collective wait all_gather %more from %x over "data"
loops.func @messages mesh (stage = 2, data = 2) {
  %x = assign.node "x" constant because "data" : memref<64xf32>
  %rows = assign.node "rows" on_device because "node" : memref<2x64xf32>
  %more = assign.node "more" on_device because "node" : memref<2x64xf32>
  %h = assign.node "h" on_device because "node" : memref<64xf32>
  loops.collective all_gather %rows from %x over "data"
  loops.collective send %x as 0 to 1 over "stage"
  loops.collective all_gather %more from %x over "data"
  loops.nest "h" (i = 64) {
    %0 = loops.load %x[i]
    loops.store %0, %h[i]
  }
}

// -----

// What is set to zero takes memory, and would be no work to wait with: it is set when its reader has all else.
// CHECK-LABEL: loops.func @fills
// CHECK:         loops.collective start all_gather %rows from %x over "data"
// CHECK-NEXT:    loops.collective wait all_gather %rows from %x over "data"
// CHECK-NEXT:    loops.nest "y"
// CHECK:         loops.nest "zeros"
// CHECK:         loops.nest "z"
loops.func @fills mesh (data = 2) {
  %x = assign.node "x" constant because "data" : memref<64xf32>
  %rows = assign.node "rows" local because "of a collective" : memref<2x64xf32>
  %y = assign.node "y" local because "intermediate value" : memref<64xf32>
  %zeros = assign.node "zeros" local because "partial results of z" : memref<64xf32>
  %z = assign.node "z" on_device because "gradient" : memref<64xf32>
  loops.collective all_gather %rows from %x over "data"
  loops.nest "y" (i = 64) {
    %0 = loops.load %rows[0, i]
    loops.store %0, %y[i]
  }
  loops.nest "zeros" (i = 64) {
    %1 = arith.constant 0.0 : f32
    loops.store %1, %zeros[i]
  }
  loops.nest "z" (i = 64) {
    %2 = loops.load %zeros[i]
    %3 = loops.load %y[i]
    %4 = arith.addf %2, %3 : f32
    loops.store %4, %z[i]
  }
}
