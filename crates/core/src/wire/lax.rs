//! Field readers that accept the forms they know and treat all others as absent.
//!
//! A provider that turns a string into an object, or a number into `null`, must cost us only that field, not the event.
//! Strings without escapes are borrowed from the payload: `Option<Cow<str>>` derived by serde would always copy.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer,
};
use serde_json::value::RawValue;

/// A JSON value; only scalars are kept.
enum Scalar<'a> {
    Text(Cow<'a, str>),
    Whole(u64),
    Real(f64),
    Truth(bool),
    Other,
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Scalar<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Borrowed(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Owned(v.to_owned())))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
                Ok(Scalar::Whole(v))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Scalar::Other)
            }
            fn visit_f64<E>(self, v: f64) -> Result<Self::Value, E> {
                Ok(Scalar::Real(v))
            }
            fn visit_bool<E>(self, v: bool) -> Result<Self::Value, E> {
                Ok(Scalar::Truth(v))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Scalar::Other)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> Result<Self::Value, A::Error> {
                while a.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut a: A) -> Result<Self::Value, A::Error> {
                while a.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
        }
        d.deserialize_any(V)
    }
}

/// A string, or `None`.
pub fn text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    Ok(match Scalar::deserialize(d)? {
        Scalar::Text(t) => Some(t),
        _ => None,
    })
}

/// A non-negative count, or `None`. Truncates fractions: nobody sends half a token.
pub fn count<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    Ok(match Scalar::deserialize(d)? {
        Scalar::Whole(n) => Some(n),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
        Scalar::Real(x) if (0.0..9e15).contains(&x) => Some(x as u64),
        _ => None,
    })
}

/// `true` only if the value is `true`.
pub(crate) fn truth<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    Ok(matches!(Scalar::deserialize(d)?, Scalar::Truth(true)))
}

/// An object of the known shape, or `None`.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    struct V<T>(std::marker::PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for V<T> {
        type Value = Option<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any JSON value")
        }
        fn visit_map<A: MapAccess<'de>>(self, a: A) -> Result<Self::Value, A::Error> {
            T::deserialize(MapAccessDeserializer::new(a)).map(Some)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> Result<Self::Value, A::Error> {
            while a.next_element::<IgnoredAny>()?.is_some() {}
            Ok(None)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
    d.deserialize_any(V(std::marker::PhantomData))
}

/// Raw text: skipped now, decoded only when read.
///
/// Prompts and answers can be long, and a client that cuts text in the middle of an emoji sends half a surrogate pair,
/// which strict decoding refuses. Skipping accepts it, and so does `text`.
#[derive(Debug, Clone, Copy)]
pub struct Later<'a>(&'a RawValue);

impl<'a> Later<'a> {
    /// The text with broken characters replaced; `None` if the value is not a string.
    pub fn text(self) -> Option<Cow<'a, str>> {
        struct Bytes<'a>(Cow<'a, [u8]>);
        impl<'de> Deserialize<'de> for Bytes<'de> {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct V;
                impl<'de> Visitor<'de> for V {
                    type Value = Bytes<'de>;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a string")
                    }
                    fn visit_borrowed_bytes<E>(self, v: &'de [u8]) -> Result<Self::Value, E> {
                        Ok(Bytes(Cow::Borrowed(v)))
                    }
                    fn visit_bytes<E>(self, v: &[u8]) -> Result<Self::Value, E> {
                        Ok(Bytes(Cow::Owned(v.to_vec())))
                    }
                    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
                        Ok(Bytes(Cow::Borrowed(v.as_bytes())))
                    }
                    fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
                        Ok(Bytes(Cow::Owned(v.as_bytes().to_vec())))
                    }
                }
                d.deserialize_bytes(V)
            }
        }
        if !self.0.get().starts_with('"') {
            return None;
        }
        // Nearly all text is valid, and decoding bytes costs more (see `scan`).
        if let Ok(Scalar::Text(text)) = serde_json::from_str(self.0.get()) {
            return Some(text);
        }
        match serde_json::from_str::<Bytes<'a>>(self.0.get()).ok()?.0 {
            Cow::Borrowed(b) => Some(String::from_utf8_lossy(b)),
            Cow::Owned(b) => Some(Cow::Owned(String::from_utf8_lossy(&b).into_owned())),
        }
    }

    /// The raw JSON, for values that are neither text nor ours to interpret.
    pub fn json(self) -> &'a str {
        self.0.get()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Later<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        <&'a RawValue>::deserialize(d).map(Later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Probe<'a> {
        #[serde(default, borrow, deserialize_with = "text")]
        name: Option<Cow<'a, str>>,
        #[serde(default, deserialize_with = "count")]
        tokens: Option<u64>,
        #[serde(default, deserialize_with = "truth")]
        active: bool,
        #[serde(default, borrow)]
        prompt: Option<Later<'a>>,
    }

    fn probe(json: &str) -> Probe<'_> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_plain_string_is_borrowed_and_an_escaped_one_is_copied() {
        assert!(matches!(probe(r#"{"name":"abc"}"#).name, Some(Cow::Borrowed("abc"))));
        assert!(matches!(probe(r#"{"name":"a\nc"}"#).name, Some(Cow::Owned(s)) if s == "a\nc"));
    }

    #[test]
    fn a_value_of_another_type_is_absent_and_the_rest_is_read() {
        for odd in ["null", "1", "-1", "1.5", "true", "[1,[2]]", r#"{"a":{"b":1}}"#] {
            let json = format!(r#"{{"name":{odd},"tokens":7}}"#);
            let p = probe(&json);
            assert_eq!((p.name, p.tokens), (None, Some(7)), "{odd}");
        }
        for odd in ["null", "-1", "-0.5", "1e300", "\"7\"", "true", "[]", "{}"] {
            let json = format!(r#"{{"tokens":{odd},"active":{odd},"name":"x"}}"#);
            let p = probe(&json);
            assert_eq!((p.tokens, p.name.as_deref()), (None, Some("x")), "{odd}");
            assert_eq!(p.active, odd == "true");
        }
    }

    #[test]
    fn half_a_surrogate_pair_costs_a_character_and_not_the_payload() {
        let p = probe(r#"{"prompt":"cut \ud83d","name":"x","else":"\ude00 too"}"#);
        let text = p.prompt.unwrap().text().unwrap();
        assert!(text.starts_with("cut \u{fffd}"), "{text:?}");
        assert_eq!(p.name.as_deref(), Some("x"));
        assert!(matches!(
            probe(r#"{"prompt":"plain"}"#).prompt.unwrap().text(),
            Some(Cow::Borrowed("plain"))
        ));
        assert!(probe(r#"{"prompt":{"a":1}}"#).prompt.unwrap().text().is_none());
        assert!(probe(r#"{"prompt":null}"#).prompt.is_none());
    }
}
