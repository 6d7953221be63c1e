// RUN: ocannl-opt %s -p 'turn-factors{tf32=true}' | filecheck %s
// RUN: ocannl-opt %s -p turn-factors | filecheck %s --check-prefix=EXACT

// Neither factor lies along the sum: the smaller one is copied.
loops.func @neither {
  %x = assign.node "x" constant because "data" : memref<8x1024x768xf32>
  %g = assign.node "g" constant because "data" : memref<8x1024x3072xf32>
  %w = assign.node "w" on_device because "gradient" : memref<3072x768xf32>
  loops.nest "w" (o = 3072, i = 768) {
    %0 = loops.reduce add (a = 8, b = 1024) : f32 {
      %1 = loops.load %g[a, b, o]
      %2 = loops.load %x[a, b, i]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %w[o, i]
  }
}

// CHECK-LABEL: loops.func @neither {
// CHECK:         [[TURNED:%.*]] = assign.node "x.turned" local because "along the sum of w" : memref<8x768x1024xf32>
// CHECK-NEXT:    loops.nest "x.turned" (a = 8, i = 768, b = 1024) {
// CHECK-NEXT:      [[V:%.*]] = loops.load %x[a, b, i]
// CHECK-NEXT:      loops.store [[V]], [[TURNED]][a, i, b]
// CHECK:         loops.nest "w" (o = 3072, i = 768) {
// CHECK:           loops.load %g[a, b, o]
// CHECK-NEXT:      loops.load [[TURNED]][a, i, b]

// EXACT-LABEL: loops.func @neither {
// EXACT:           loops.load %g[a, b, o]
// EXACT-NEXT:      loops.load %x[a, b, i]

// One does: a matrix that is small beside the product is copied, one that is not stays.
loops.func @one {
  %x = assign.node "x" constant because "data" : memref<8192x3072xf32>
  %w = assign.node "w" on_device because "parameter" : memref<3072x768xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<8192x768xf32>
  %few = assign.node "few" constant because "data" : memref<256x3072xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<256x768xf32>
  loops.nest "y" (b = 8192, o = 768) {
    %0 = loops.reduce add (i = 3072) : f32 {
      %1 = loops.load %x[b, i]
      %2 = loops.load %w[i, o]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[b, o]
  }
  loops.nest "z" (b = 256, o = 768) {
    %0 = loops.reduce add (i = 3072) : f32 {
      %1 = loops.load %few[b, i]
      %2 = loops.load %w[i, o]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %z[b, o]
  }
}

// CHECK-LABEL: loops.func @one {
// CHECK:         loops.nest "w.turned" (o = 768, i = 3072) {
// CHECK:         loops.nest "y" (b = 8192, o = 768) {
// CHECK-NOT:     turned
// CHECK:         loops.nest "z" (b = 256, o = 768) {
// CHECK:           loops.load %w[i, o]

// Both do: nothing is copied.
loops.func @none {
  %x = assign.node "x" constant because "data" : memref<8192x3072xf32>
  %w = assign.node "w" on_device because "parameter" : memref<768x3072xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<8192x768xf32>
  loops.nest "y" (b = 8192, o = 768) {
    %0 = loops.reduce add (i = 3072) : f32 {
      %1 = loops.load %x[b, i]
      %2 = loops.load %w[o, i]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[b, o]
  }
}

// CHECK-LABEL: loops.func @none {
// CHECK-NOT:     turned

// Of 8 bits both are copied where they do not lie along the sum.
loops.func @quarters {
  %x = assign.node "x" constant because "data" : memref<2048x1024xf8E4M3FN>
  %w = assign.node "w" constant because "data" : memref<2048x1024xf8E4M3FN>
  %y = assign.node "y" on_device because "computed by forward" : memref<1024x1024xf32>
  loops.nest "y" (b = 1024, o = 1024) {
    %0 = loops.reduce add (i = 2048) : f32 {
      %1 = loops.load %x[i, b]
      %2 = arith.extf %1 : f8E4M3FN to f32
      %3 = loops.load %w[i, o]
      %4 = arith.extf %3 : f8E4M3FN to f32
      %5 = arith.mulf %2, %4 : f32
      loops.yield %5
    }
    loops.store %0, %y[b, o]
  }
}

// CHECK-LABEL: loops.func @quarters {
// EXACT-LABEL: loops.func @quarters {
// EXACT:         [[X:%.*]] = assign.node "x.turned" local because "along the sum of y" : memref<1024x2048xf8E4M3FN>
// EXACT:         [[W:%.*]] = assign.node "w.turned" local because "along the sum of y" : memref<1024x2048xf8E4M3FN>
// EXACT:         loops.load [[X]][b, i]
// EXACT:         loops.load [[W]][o, i]

// A node may be declared after steps that do not use it: a copy is declared before the step that reads it.
loops.func @late {
  %x = assign.node "x" constant because "data" : memref<8x1024x768xf32>
  %g = assign.node "g" constant because "data" : memref<8x1024x3072xf32>
  %w = assign.node "w" on_device because "gradient" : memref<3072x768xf32>
  loops.nest "w" (o = 3072, i = 768) {
    %0 = loops.reduce add (a = 8, b = 1024) : f32 {
      %1 = loops.load %g[a, b, o]
      %2 = loops.load %x[a, b, i]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %w[o, i]
  }
  %y = assign.node "y" on_device because "result" : memref<3xf32>
  loops.nest "y" (i = 3) {
    %0 = arith.constant 1.0 : f32
    loops.store %0, %y[i]
  }
}

// CHECK-LABEL: loops.func @late {
// CHECK:         %w = assign.node
// CHECK-NEXT:    assign.node "x.turned"
// CHECK-NEXT:    loops.nest "x.turned"
// CHECK-NEXT:      loops.load
// CHECK-NEXT:      loops.store
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "w"
// CHECK:         %y = assign.node

// There is nothing to turn.
loops.func @nothing {
}

// CHECK-LABEL: loops.func @nothing {
// CHECK-NEXT:  }
