//! The [`enumeration!`](crate::enumeration) and [`flags!`](crate::flags) macros.

/// Defines an enumeration that is read as a name (any case) or a number and written as its name, or as its
/// number when declared `as number`. What is not known is kept.
#[macro_export]
macro_rules! enumeration {
    ($(#[$meta:meta])* pub enum $name:ident as $form:ident {
        $($(#[$vmeta:meta])* $variant:ident = $number:literal $text:literal $(| $alias:literal)*),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vmeta])* $variant,)*
            /// A name that this crate does not know.
            OtherName(String),
            /// A number that this crate does not know.
            OtherNumber(u32),
        }

        impl $name {
            /// Every known value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name, as HNS writes it.
            pub fn name(&self) -> std::borrow::Cow<'_, str> {
                match self {
                    $(Self::$variant => $text.into(),)*
                    Self::OtherName(name) => name.as_str().into(),
                    Self::OtherNumber(number) => number.to_string().into(),
                }
            }

            /// The number, where there is one.
            pub fn number(&self) -> Option<u32> {
                match self {
                    $(Self::$variant => Some($number),)*
                    Self::OtherName(_) => None,
                    Self::OtherNumber(number) => Some(*number),
                }
            }

            /// The value with this name, without regard to case.
            pub fn from_name(name: &str) -> Self {
                match name {
                    $(n if n.eq_ignore_ascii_case($text) $(|| n.eq_ignore_ascii_case($alias))* => Self::$variant,)*
                    _ => Self::OtherName(name.to_owned()),
                }
            }

            /// The value with this number.
            pub fn from_number(number: u32) -> Self {
                match number {
                    $(n if n == $number => Self::$variant,)*
                    _ => Self::OtherNumber(number),
                }
            }

            /// Whether the value is one this crate knows.
            pub fn is_known(&self) -> bool {
                !matches!(self, Self::OtherName(_) | Self::OtherNumber(_))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.name())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                $crate::json::enumeration_form!($form, self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                match $crate::json::NameOrNumber::deserialize(deserializer)? {
                    $crate::json::NameOrNumber::Name(name) => Ok(Self::from_name(&name)),
                    $crate::json::NameOrNumber::Number(number) => Ok(Self::from_number(number)),
                }
            }
        }
    };
}

/// How [`enumeration!`] writes a value.
#[doc(hidden)]
#[macro_export]
macro_rules! __enumeration_form {
    (name, $self:ident, $serializer:ident) => {
        match $self {
            Self::OtherNumber(number) => $serializer.serialize_u32(*number),
            known => $serializer.serialize_str(&known.name()),
        }
    };
    (number, $self:ident, $serializer:ident) => {
        match $self.number() {
            Some(number) => $serializer.serialize_u32(number),
            None => $serializer.serialize_str(&$self.name()),
        }
    };
}
#[doc(hidden)]
pub use __enumeration_form as enumeration_form;

/// Defines a set of flags that is read as a number or as names parted by commas and written as a number. Bits
/// this crate does not know are kept; a name it does not know is an error.
#[macro_export]
macro_rules! flags {
    ($(#[$($meta:tt)*])* pub struct $name:ident {
        $($(#[$($fmeta:tt)*])* $flag:ident = $bit:literal $text:literal $(| $alias:literal)*),* $(,)?
    }) => {
        bitflags::bitflags! {
            $(#[$($meta)*])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name: u32 {
                $($(#[$($fmeta)*])* const $flag = $bit;)*
                const _ = !0;
            }
        }

        impl $name {
            /// The names of the flags that are set, with unknown bits as one number; "None" when there are none.
            pub fn names(self) -> String {
                let mut names: Vec<std::borrow::Cow<'static, str>> = Vec::new();
                let mut rest = self.bits();
                $(if self.contains(Self::$flag) {
                    names.push($text.into());
                    rest &= !$bit;
                })*
                if rest != 0 {
                    names.push(format!("{rest:#x}").into());
                }
                if names.is_empty() { "None".to_owned() } else { names.join(", ") }
            }

            fn from_names(text: &str) -> std::result::Result<Self, String> {
                let mut flags = Self::empty();
                for part in text.split([',', '|']).map(str::trim).filter(|part| !part.is_empty()) {
                    flags |= match part {
                        n if n.eq_ignore_ascii_case("None") => Self::empty(),
                        $(n if n.eq_ignore_ascii_case($text) $(|| n.eq_ignore_ascii_case($alias))* => Self::$flag,)*
                        _ => return Err(format!("{part:?} is not a flag of {}", stringify!($name))),
                    };
                }
                Ok(flags)
            }
        }

        impl $crate::json::Blank for $name {
            fn is_blank(&self) -> bool {
                self.is_empty()
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_u32(self.bits())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                match $crate::json::NameOrNumber::deserialize(deserializer)? {
                    $crate::json::NameOrNumber::Number(bits) => Ok(Self::from_bits_retain(bits)),
                    $crate::json::NameOrNumber::Name(text) => {
                        Self::from_names(&text).map_err(serde::de::Error::custom)
                    }
                }
            }
        }
    };
}
