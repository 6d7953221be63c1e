// RUN: ocannl-opt %s -p 'inline-nodes{factor_bits=8}' | filecheck %s
// RUN: ocannl-opt %s -p 'inline-nodes{factor_bits=16}' | filecheck %s --check-prefix STORED
// RUN: ocannl-opt %s -p inline-nodes | filecheck %s --check-prefix STORED

// Tensor cores multiply what is widened.
loops.func @both {
  %x = assign.node "x" on_device because "data" : memref<32x64xf8E5M2>
  %w = assign.node "w" on_device because "data" : memref<48x64xf8E5M2>
  %wide = assign.node "wide" local because "intermediate value" : memref<32x64xf32>
  %other = assign.node "other" local because "intermediate value" : memref<48x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x48xf32>
  loops.nest "wide" (b = 32, i = 64) {
    %0 = loops.load %x[b, i]
    %1 = arith.extf %0 : f8E5M2 to f32
    loops.store %1, %wide[b, i]
  }
  loops.nest "other" (o = 48, i = 64) {
    %0 = loops.load %w[o, i]
    %1 = arith.extf %0 : f8E5M2 to f32
    loops.store %1, %other[o, i]
  }
  loops.nest "y" (b = 32, o = 48) {
    %sum = loops.reduce add (i = 64) : f32 {
      %0 = loops.load %wide[b, i]
      %1 = loops.load %other[o, i]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    loops.store %sum, %y[b, o]
  }
}

// CHECK-LABEL: loops.func @both {
// CHECK:         "wide" virtual because "computed where it is used: tensor cores multiply what is widened"
// CHECK:         loops.nest "y" (b = 32, o = 48) {
// CHECK-NEXT:      %{{.*}} = loops.reduce add (i = 64) : f32 {
// CHECK-NEXT:        [[X:%.*]] = loops.load %x[b, i]
// CHECK-NEXT:        arith.extf [[X]] : f8E5M2 to f32
// CHECK-NEXT:        [[W:%.*]] = loops.load %w[o, i]

// STORED-LABEL: loops.func @both {
// STORED:         loops.load %wide[b, i]

// Those of two types, and what is more than widened, are stored.
loops.func @others {
  %x = assign.node "x" on_device because "data" : memref<32x64xf8E5M2>
  %w = assign.node "w" on_device because "data" : memref<48x64xbf16>
  %wide = assign.node "wide" local because "intermediate value" : memref<32x64xf32>
  %other = assign.node "other" local because "intermediate value" : memref<48x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x48xf32>
  loops.nest "wide" (b = 32, i = 64) {
    %0 = loops.load %x[b, i]
    %1 = arith.extf %0 : f8E5M2 to f32
    loops.store %1, %wide[b, i]
  }
  loops.nest "other" (o = 48, i = 64) {
    %0 = loops.load %w[o, i]
    %1 = arith.extf %0 : bf16 to f32
    loops.store %1, %other[o, i]
  }
  loops.nest "y" (b = 32, o = 48) {
    %sum = loops.reduce add (i = 64) : f32 {
      %0 = loops.load %wide[b, i]
      %1 = loops.load %other[o, i]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    loops.store %sum, %y[b, o]
  }
}

// CHECK-LABEL: loops.func @others {
// CHECK:         loops.load %wide[b, i]
// CHECK-NEXT:    loops.load %other[o, i]

// Factors that are of the type themselves are stored as before, whatever they are made of.
loops.func @made {
  %x = assign.node "x" on_device because "data" : memref<32x64xf8E5M2>
  %w = assign.node "w" on_device because "data" : memref<48x64xf8E5M2>
  %made = assign.node "made" local because "intermediate value" : memref<32x64xf8E5M2>
  %wide = assign.node "wide" local because "intermediate value" : memref<48x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x48xf32>
  loops.nest "made" (b = 32, i = 64) {
    %0 = loops.load %x[b, i]
    %1 = arith.extf %0 : f8E5M2 to f32
    %2 = math.exp %1 : f32
    %3 = arith.truncf %2 : f32 to f8E5M2
    loops.store %3, %made[b, i]
  }
  loops.nest "wide" (o = 48, i = 64) {
    %0 = loops.load %w[o, i]
    %1 = arith.extf %0 : f8E5M2 to f32
    loops.store %1, %wide[o, i]
  }
  loops.nest "y" (b = 32, o = 48) {
    %sum = loops.reduce add (i = 64) : f32 {
      %0 = loops.load %made[b, i]
      %1 = arith.extf %0 : f8E5M2 to f32
      %2 = loops.load %wide[o, i]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %sum, %y[b, o]
  }
}

// CHECK-LABEL: loops.func @made {
// CHECK:         "wide" virtual
// CHECK:         loops.nest "made"
// CHECK:         loops.nest "y" (b = 32, o = 48) {
// CHECK-NEXT:      %{{.*}} = loops.reduce add (i = 64) : f32 {
// CHECK-NEXT:        [[X:%.*]] = loops.load %made[b, i]
// CHECK-NEXT:        arith.extf [[X]] : f8E5M2 to f32
// CHECK-NEXT:        loops.load %w[o, i]
